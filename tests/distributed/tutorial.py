"""The ordinary script of data-parallel training, as PyTorch's tutorials have it: set up, wrap, train, save on rank 0, clean up."""

import argparse
import os

import weft as torch
import weft.distributed as dist
import weft.nn as nn
import weft.optim as optim
from weft.nn.parallel import DistributedDataParallel as DDP
from weft.utils.data import DataLoader, TensorDataset
from weft.utils.data.distributed import DistributedSampler


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1, self.relu, self.net2 = nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint")
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(64, 10), torch.randn(64, 5))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)

    ddp_model = DDP(ToyModel())
    loss_fn = nn.MSELoss()
    optimizer = optim.SGD(ddp_model.parameters(), lr=0.001)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss_fn(ddp_model(inputs), labels).backward()
            optimizer.step()

    if rank == 0:
        torch.save(ddp_model.state_dict(), args.checkpoint)
    dist.barrier()
    state = torch.load(args.checkpoint)
    ddp_model.load_state_dict(state)
    total = sum(p.double().sum() for p in ddp_model.parameters()).item()
    print(f"rank {rank} of {dist.get_world_size()} (local {local_rank}): {total:.12f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
