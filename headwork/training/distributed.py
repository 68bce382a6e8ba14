"""Many processes: the same command under torchrun. Each takes its part of a batch; gradients are averaged.

torchrun gives each process its rank and the number of processes (RANK, WORLD_SIZE, LOCAL_RANK) and restarts
them all when one dies. Only the first one reads and writes the run's folder; it sends what it reads to the
others.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headwork.errors import HeadworkError
from headwork.training.checkpoints import Files

LOST_PEER_WORDS = ("gloo", "Gloo", "NCCL", "Connection")  # words of torch's errors when a peer is gone


@dataclass(frozen=True)
class DistributedContext:
    """This process among the others; alone it does nothing."""

    rank: int = 0
    world_size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    restarted: bool = False

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    @property
    def batch_slice(self) -> slice:
        """The part of a batch that is this process's."""
        return slice(self.rank, None, self.world_size)

    def wrap_model(self, model: nn.Module) -> nn.Module:
        """The model with its gradients averaged over all processes."""
        if self.world_size == 1:
            return model
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(model)

    def all_reduce(self, values: Tensor) -> Tensor:
        """A tensor summed over all processes."""
        if self.world_size == 1:
            return values
        values = values.to(self.device)
        torch.distributed.all_reduce(values)
        return values.cpu()

    def sum_numbers(self, *numbers: float) -> list[float]:
        """Each number summed over all processes."""
        totals: list[float] = self.all_reduce(torch.tensor(numbers, dtype=torch.float64)).tolist()
        return totals

    def any_process(self, holds: bool) -> bool:
        """Whether it holds in any process."""
        return self.sum_numbers(float(holds))[0] > 0

    def broadcast(self, files: Files | None) -> Files | None:
        """The files that the first process read, in every process; None where it read none."""
        objects = [files]
        if self.world_size > 1:
            torch.distributed.broadcast_object_list(objects, 0, device=self.device)
        return objects[0]

    def barrier(self) -> None:
        if self.world_size > 1:
            torch.distributed.barrier()

    def to_device(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(tensor.to(self.device, non_blocking=True) for tensor in inputs)


@contextmanager
def process_group() -> Iterator[DistributedContext]:
    """The processes that torchrun started, or this one alone."""
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    if world_size == 1:
        yield DistributedContext(device=device, restarted=restarts > 0)
        return
    distributed: Any = torch.distributed
    store, rank, _ = next(distributed.rendezvous("env://"))
    # torchrun keeps its store over restarts: without a prefix new processes would find the old addresses.
    store = distributed.PrefixStore(f"restart {restarts}", store)
    backend = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, store=store, rank=rank, world_size=world_size)
    try:
        yield DistributedContext(rank, world_size, device, restarts > 0)
    except RuntimeError as error:
        if any(word in str(error) for word in LOST_PEER_WORDS):
            raise HeadworkError(
                f"process {rank}: another process went away. torchrun restarts all, or ends."
            ) from None
        raise
    finally:
        distributed.destroy_process_group()
