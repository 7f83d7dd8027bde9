
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from layers import GraphConvolution
from portable import reset
from utils import accuracy, load_data

parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_true", default=False)
parser.add_argument("--epochs", type=int, default=12)
parser.add_argument("--weight_decay", type=float, default=5e-4)
args = parser.parse_args()
args.cuda = not args.no_cuda and torch.cuda.is_available()
np.random.seed(42)
torch.manual_seed(42)
if args.cuda:
    torch.cuda.manual_seed(42)
adj, features, labels, idx_train, idx_val = load_data()


class GCN(nn.Module):
    def __init__(self, nfeat, nhid, nclass, dropout):
        super().__init__()
        self.gc1 = GraphConvolution(nfeat, nhid)
        self.gc2 = GraphConvolution(nhid, nclass)
        self.dropout = dropout

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.dropout, training=self.training)
        x = self.gc2(x, adj)
        return F.log_softmax(x, dim=1)


model = reset(GCN(nfeat=features.shape[1], nhid=16, nclass=labels.max().item() + 1, dropout=0.0))
print(model)
optimizer = optim.Adam(model.parameters(), lr=0.01, weight_decay=args.weight_decay)
if args.cuda:
    model.cuda()
history = []
for epoch in range(args.epochs):
    t = time.time()
    model.train()
    optimizer.zero_grad()
    output = model(features, adj)
    loss_train = F.nll_loss(output[idx_train], labels[idx_train])
    acc_train = accuracy(output[idx_train], labels[idx_train])
    loss_train.backward()
    optimizer.step()
    model.eval()
    output = model(features, adj)
    loss_val = F.nll_loss(output[idx_val], labels[idx_val])
    history += [loss_train.item(), loss_val.item()]
    print(f"Epoch: {epoch + 1:04d}", f"acc_train: {acc_train.item():.4f}")
