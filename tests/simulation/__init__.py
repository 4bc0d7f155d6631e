"""Histories of a whole fleet in one thread: the real store and the real rules, with a clock that is moved and a network that loses answers.

Everything comes from one seed: who acts next, what is lost, who dies. So thousands of histories take minutes, and each can be run again.
They are judged by the checker of the torture runs, by what a trigger in the store saw.
"""
