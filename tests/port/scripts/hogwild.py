# Hogwild: processes that train one model in shared memory, after pytorch/examples/mnist_hogwild; here they take turns
import argparse
import os

import torch
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

from portable import images, reset


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, kernel_size=3), nn.Conv2d(6, 8, kernel_size=3)
        self.conv2_drop = nn.Dropout2d(p=0.0)
        self.fc1, self.fc2 = nn.Linear(32, 16), nn.Linear(16, 4)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(self.conv2_drop(self.conv2(F.pad(x, (1, 0, 1, 0)))))
        x = F.relu(self.fc1(x.flatten(1)))
        x = F.dropout(x, 0.0, training=self.training)
        return F.log_softmax(self.fc2(x), dim=1)


def train(rank, args, model, turn, queue):
    torch.manual_seed(args.seed + rank)
    torch.set_num_threads(1)
    data, target = images(16, size=8, seed=rank)
    optimizer = optim.SGD(model.parameters(), lr=args.lr)
    model.train()
    for epoch in range(1, args.epochs + 1):
        while turn.value != args.num_processes * (epoch - 1) + rank:
            pass
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        queue.put((epoch, rank, os.getpid() == args.parent, loss.item()))
        turn.value += 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="PyTorch MNIST Example")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--num-processes", type=int, default=2)
    args = parser.parse_args([])
    args.parent = os.getpid()
    mp.set_start_method("fork", force=True)
    model = reset(Net(), scale=1.5)
    model.share_memory()
    assert all(p.is_shared() for p in model.parameters())
    turn, queue = mp.Value("i", 0), mp.SimpleQueue()
    processes = []
    for rank in range(args.num_processes):
        p = mp.Process(target=train, args=(rank, args, model, turn, queue))
        p.start()
        processes.append(p)
    told = [queue.get() for _ in range(args.epochs * args.num_processes)]
    for p in processes:
        p.join()
    assert not any(here for _, _, here, _ in told)
    history = [loss for *_, loss in sorted(told)]
    model.eval()
    with torch.no_grad():
        data, target = images(16, size=8, seed=0)
        history.append(F.nll_loss(model(data), target, reduction="mean").item())
