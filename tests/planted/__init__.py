"""The bugs that queues are known for, each as a patch of this library, and what must catch it: else a passed check proves nothing."""
