"""Ten people at once: in full for two minutes under make soak, a sample in the suite."""

from __future__ import annotations

import http.client
import json
import random
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from headwork.lab.calls import example_state

STATE = example_state("self-attention").as_data()


class Person(threading.Thread):
    """Drags beta: one update a second, on a connection that is kept."""

    def __init__(self, port: int, token: str, updates: int, pause: float, seed: int) -> None:
        super().__init__(daemon=True)
        self.port, self.token, self.updates, self.pause = port, token, updates, pause
        self.draw = random.Random(seed)
        self.seconds: list[float] = []
        self.statuses: set[int] = set()

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        host = f"127.0.0.1:{self.port}"
        headers = {
            "X-Headwork-Token": self.token,
            "Origin": f"http://{host}",
            "Content-Type": "application/json",
        }
        time.sleep(self.pause * self.draw.random())
        for _ in range(self.updates):
            began = time.monotonic()
            state = {**STATE, "options": {"beta": f"{self.draw.random() * 5:.3f}"}}
            connection.request("POST", "/call/explain", json.dumps({"state": state}), headers)
            answer = connection.getresponse()
            answer.read()
            self.seconds.append(time.monotonic() - began)
            self.statuses.add(answer.status)
            time.sleep(max(0.0, self.pause - self.seconds[-1]))


def test_ten_people_a_moment(served: Any) -> None:
    people = [Person(served.port, "a-token-of-the-tests", 3, 0.05, seed) for seed in range(10)]
    for person in people:
        person.start()
    for person in people:
        person.join(60)
    assert {status for person in people for status in person.statuses} == {200}
    assert sum(len(person.seconds) for person in people) == 30


def resident(process: int) -> int:
    """Kilobytes of memory that a process holds."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1])


@pytest.mark.soak
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measures memory by /proc")
def test_ten_people_for_two_minutes() -> None:
    command = [sys.executable, "-m", "headwork", "lab", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            found = re.search(r":(\d+)/\?token=(\S+)", running.stdout.readline())
            assert found is not None
            people = [Person(int(found[1]), found[2], 120, 1.0, seed) for seed in range(10)]
            for person in people:
                person.start()
            time.sleep(30)
            early = resident(running.pid)
            for person in people:
                person.join(300)
            late = resident(running.pid)
        finally:
            running.terminate()
    seconds = sorted(second for person in people for second in person.seconds)
    p95 = seconds[int(0.95 * len(seconds))]
    drift = late / early - 1
    print(
        f"{len(seconds)} updates, median {1000 * seconds[len(seconds) // 2]:.0f} ms, "
        f"p95 {1000 * p95:.0f} ms, "
        f"{early / 1000:.0f} MB, drift {drift:+.1%}"
    )
    assert {status for person in people for status in person.statuses} == {200}
    assert len(seconds) == 1200
    assert p95 <= 0.3
    assert drift < 0.05
