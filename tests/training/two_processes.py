"""The same run by one process and by two, in float64. Prints the largest difference between their parameters.

    python two_processes.py FOLDER

What torchrun would do, without starting python again for each process: it forks before torch has a thread.
"""

from __future__ import annotations

import os
import socket
import sys
import traceback
from pathlib import Path

import torch

from headwork import training
from headwork.data import load_images
from headwork.training.progress import quiet

SMALL = "model.width=8 model.hidden=8 model.depth=2 model.heads=2 precision=float64 augmentation.shift=1"
# 1,293 images make 19 batches of 68 and one of 1, of which the second process gets nothing.
SETTINGS = [*SMALL.split(), "batch_size=68", "epochs=5", "augmentation.erase=0.3"]


def work(folder: Path, rank: int, world: int, port: int) -> int:
    number = os.fork()
    if number:
        return number
    try:
        os.environ |= {"RANK": f"{rank}", "LOCAL_RANK": f"{rank}", "WORLD_SIZE": f"{world}"}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{port}"}
        training.train(training.changed(training.vision("digits"), SETTINGS), folder, log=quiet)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main(place: Path) -> None:
    torch.set_num_threads(1)
    load_images("digits")
    states = []
    for world in (1, 2):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        started = [work(place / f"by-{world}", rank, world, port) for rank in range(world)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) for number in started]
        if any(codes):
            sys.exit(f"{world} processes ended with {codes}")
        states.append(training.load_model(place / f"by-{world}").state_dict())
    one, two = states
    print(max(float((one[name] - two[name]).abs().max()) for name in one))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
