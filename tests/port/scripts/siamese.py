import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.sampler import BatchSampler, Sampler

from portable import images, reset


class PairDataset(Dataset):
    def __init__(self, train=True):
        self.data, self.labels = images(24, size=10)
        self.rnd = random.Random(1)

    def __getitem__(self, index):
        target = self.rnd.randint(0, 1)
        img1, label1 = self.data[index], self.labels[index].item()
        same = [i for i in range(len(self.labels)) if (self.labels[i].item() == label1) == bool(target) and i != index]
        return (img1, self.data[self.rnd.choice(same)]), target

    def __len__(self):
        return len(self.data)


class BalancedBatchSampler(BatchSampler):
    """Samples n_classes and within these classes n_samples."""

    def __init__(self, labels, n_classes, n_samples):
        self.labels, self.n_classes, self.n_samples = labels, n_classes, n_samples
        self.rnd = random.Random(0)

    def __iter__(self):
        for _ in range(len(self)):
            indices = []
            for class_ in self.rnd.sample(range(4), self.n_classes):
                where = [i for i, label in enumerate(self.labels.tolist()) if label == class_]
                indices.extend(self.rnd.sample(where, self.n_samples))
            yield indices

    def __len__(self):
        return len(self.labels) // (self.n_classes * self.n_samples)


class EmbeddingNet(nn.Module):
    def __init__(self):
        super(EmbeddingNet, self).__init__()
        self.convnet = nn.Sequential(nn.Conv2d(1, 8, 5), nn.PReLU(), nn.MaxPool2d(2, stride=2))
        self.fc = nn.Sequential(nn.Linear(8 * 3 * 3, 32), nn.PReLU(), nn.Linear(32, 2))

    def forward(self, x):
        output = self.convnet(x)
        output = output.view(output.size()[0], -1)
        return self.fc(output)

    def get_embedding(self, x):
        return self.forward(x)


class SiameseNet(nn.Module):
    def __init__(self, embedding_net):
        super(SiameseNet, self).__init__()
        self.embedding_net = embedding_net

    def forward(self, x1, x2):
        return self.embedding_net(x1), self.embedding_net(x2)


class ContrastiveLoss(nn.Module):
    def __init__(self, margin):
        super(ContrastiveLoss, self).__init__()
        self.margin = margin
        self.eps = 1e-9

    def forward(self, output1, output2, target, size_average=True):
        distances = (output2 - output1).pow(2).sum(1)
        losses = 0.5 * (target.float() * distances +
                        (1 + -1 * target).float() * F.relu(self.margin - (distances + self.eps).sqrt()).pow(2))
        return losses.mean() if size_average else losses.sum()


def pdist(vectors):
    return -2 * vectors.mm(torch.t(vectors)) + vectors.pow(2).sum(dim=1).view(1, -1) + vectors.pow(2).sum(dim=1).view(-1, 1)


def hardest_triplets(embeddings, labels):
    d = pdist(embeddings.detach())
    triplets = []
    for a in range(len(labels)):
        same = labels == labels[a]
        same[a] = False
        positives = torch.where(same)[0]
        negatives = torch.nonzero(labels != labels[a]).squeeze(1)
        p = positives[d[a][positives].argmax()].item()
        n = negatives[d[a][negatives].argmin()].item()
        triplets.append([a, p, n])
    return torch.LongTensor(triplets)


model = reset(SiameseNet(EmbeddingNet()), 4)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 8, gamma=0.1, last_epoch=-1)
loss_fn = ContrastiveLoss(1.0)
history = []
for epoch in range(2):
    for batch_idx, (data, target) in enumerate(DataLoader(PairDataset(), batch_size=8)):
        if not type(data) in (tuple, list):
            data = (data,)
        optimizer.zero_grad()
        loss = loss_fn(*model(*data), target)
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    scheduler.step()
dataset = torch.utils.data.TensorDataset(*images(24, size=10))
loader = DataLoader(dataset, batch_sampler=BalancedBatchSampler(dataset.tensors[1], 3, 2))
for data, target in loader:
    emb = model.embedding_net.get_embedding(data)
    t = hardest_triplets(emb, target)
    ap = (emb[t[:, 0]] - emb[t[:, 1]]).pow(2).sum(1)
    an = (emb[t[:, 0]] - emb[t[:, 2]]).pow(2).sum(1)
    loss = F.relu(ap - an + 1.0).mean() + nn.TripletMarginLoss(p=2)(emb[t[:, 0]], emb[t[:, 1]], emb[t[:, 2]])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
