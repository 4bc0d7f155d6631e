from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

START = """\
from dataclasses import dataclass
from onward import Event, JobContext, Onward, RetryPolicy, Secret, define_job, job


@dataclass
class Welcome:
    user_id: str


@dataclass
class Login:
    token: Secret[str]


def sign_in(payload: Login) -> str: return payload.token.upper()
def tell(event: Event) -> None: ...


async def send(payload: Welcome, ctx: JobContext) -> None: ...
def only(payload: Welcome) -> int: return 1
def nothing() -> None: ...
def defaults(payload: Welcome, ctx: JobContext | None = None) -> None: ...


@job("decorated", queue="mail", lease="2m")
def decorated(payload: Welcome, ctx: JobContext) -> None: ...


welcome = define_job("welcome", send, retry=RetryPolicy(5), key=lambda payload: payload.user_id)
alone = define_job("alone", only)
bare = define_job("bare", nothing)
signing_in = define_job("sign-in", sign_in)
app = Onward("memory://", jobs=[welcome, alone, bare, decorated])
"""

RIGHT = """\
app.enqueue(welcome, Welcome("42"), delay="5m")
app.enqueue(alone, Welcome("42"))
app.enqueue(decorated, Welcome("42"))
app.enqueue(bare)
app.enqueue_in(welcome, Welcome("42"), "5m", priority=3)
app.enqueue_at(alone, Welcome("42"), "2030-01-01T00:00:00Z", within=None)
app.enqueue_many([welcome.new_job(Welcome("42"), delay="5m")])
app.worker(concurrency=2, drain=True)
app.enqueue(signing_in, Login("42"))
Onward("memory://", on={"dead_lettered": tell, "failed": [tell]})
print(app.attempts(definition=welcome, since="1h").found[0].queue)
define_job("defaults", defaults)


async def later() -> None:
    await app.aenqueue_in(welcome, Welcome("42"), "5m")
    await app.aenqueue_at(welcome, Welcome("42"), "2030-01-01T00:00:00Z", owner="ada")
"""

WRONG = """\
app.enqueue(welcome, "wrong")
app.enqueue(welcome, {"user_id": "42"})
app.enqueue(welcome)
app.enqueue(alone, 5)
app.enqueue(decorated, None)
app.enqueue(bare, 5)
define_job("a", send, max_attempts=3)
define_job("b", send, queue=5)
define_job("c", send, key=lambda payload: payload.nothing)
define_job("d", send, payload=int)
job("e", queu="mail")
define_job("f", send, breaker="smtp")
app.enqueue(welcome, Welcome("42"), priorty=3)
app.enqueue_in(welcome, "42", "5m")
app.enqueue_many([welcome])
welcome.new_job(Welcome("42"), priorty=3)
app.worker(concurency=2)
app.worker(concurrency="many")
app.enqueue(signing_in, Login(42))
Onward("memory://", on={"dead_letter": tell})
app.attempts(definition="welcome")
"""


def check(tmp_path: Path, text: str) -> tuple[int, list[int], str]:
    """The checker's exit code, the lines with an error, and what it said."""
    file = tmp_path / "application.py"
    file.write_text(text)
    answer = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file=",
            f"--cache-dir={tmp_path / 'cache'}",
            "--follow-imports=silent",
            str(file),
        ],
        capture_output=True,
        text=True,
        timeout=110,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": ""},
    )
    lines = sorted({int(line) for line in re.findall(r"application\.py:(\d+): error", answer.stdout)})
    return answer.returncode, lines, answer.stdout + answer.stderr


def test_a_right_application_passes_the_type_checker(tmp_path: Path) -> None:
    """The payload's type is found through define_job and @job; nothing has to be annotated twice."""
    code, lines, said = check(tmp_path, START + RIGHT)
    assert (code, lines) == (0, []), said


def test_every_wrong_payload_and_rule_is_a_type_error(tmp_path: Path) -> None:
    """Seen in the editor, before anything runs: each line of the file, and no other."""
    code, lines, said = check(tmp_path, START + WRONG)
    first = START.count("\n") + 1
    assert code == 1, said
    assert lines == list(range(first, first + WRONG.count("\n"))), said
