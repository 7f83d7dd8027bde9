# Graph attention over a dense adjacency, after pytorch/examples/gat
import argparse

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
from torch.optim import Adam

from portable import normal, reset


class GraphAttentionLayer(nn.Module):
    def __init__(self, in_features, out_features, n_heads, concat=False, dropout=0.0, leaky_relu_slope=0.2):
        super(GraphAttentionLayer, self).__init__()
        self.n_heads, self.concat, self.dropout = n_heads, concat, dropout
        self.n_hidden = out_features // n_heads if concat else out_features
        self.W = nn.Parameter(torch.empty(size=(in_features, self.n_hidden * n_heads)))
        self.a = nn.Parameter(torch.empty(size=(n_heads, 2 * self.n_hidden, 1)))
        self.leakyrelu, self.softmax = nn.LeakyReLU(leaky_relu_slope), nn.Softmax(dim=1)
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.xavier_normal_(self.W)
        nn.init.xavier_normal_(self.a)

    def _get_attention_scores(self, h_transformed):
        source_scores = torch.matmul(h_transformed, self.a[:, : self.n_hidden, :])
        target_scores = torch.matmul(h_transformed, self.a[:, self.n_hidden :, :])
        return self.leakyrelu(source_scores + target_scores.mT)

    def forward(self, h, adj_mat):
        n_nodes = h.shape[0]
        h_transformed = F.dropout(torch.mm(h, self.W), self.dropout, training=self.training)
        h_transformed = h_transformed.view(n_nodes, self.n_heads, self.n_hidden).permute(1, 0, 2)
        e = self._get_attention_scores(h_transformed)
        attention = torch.where(adj_mat > 0, e, -9e16 * torch.ones_like(e))
        attention = F.dropout(F.softmax(attention, dim=-1), self.dropout, training=self.training)
        h_prime = torch.matmul(attention, h_transformed)
        return h_prime.permute(1, 0, 2).contiguous().view(n_nodes, self.n_heads * self.n_hidden) if self.concat else h_prime.mean(dim=0)


class GAT(nn.Module):
    def __init__(self, in_features, n_hidden, n_heads, num_classes):
        super(GAT, self).__init__()
        self.gat1 = GraphAttentionLayer(in_features, n_hidden, n_heads, concat=True)
        self.elu = nn.ELU()
        self.gat2 = GraphAttentionLayer(n_hidden, num_classes, 1)

    def forward(self, input_tensor, adj_mat):
        x = self.elu(self.gat1(input_tensor, adj_mat))
        return F.log_softmax(self.gat2(x, adj_mat), dim=1)


parser = argparse.ArgumentParser(description="PyTorch Graph Attention Network")
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--l2", type=float, default=6e-4)
args = parser.parse_args()
rng = np.random.RandomState(0)
labels = torch.from_numpy(np.repeat(np.arange(3), 12)).long()
adj = (rng.rand(36, 36) < np.where(np.equal.outer(np.repeat(np.arange(3), 12), np.repeat(np.arange(3), 12)), 0.3, 0.03)).astype(np.float32)
edges = torch.from_numpy(np.stack(np.nonzero(np.maximum(adj, adj.T))))
adj_mat = torch.sparse_coo_tensor(edges, torch.ones(edges.shape[1]), (36, 36)).to_dense() + torch.eye(36)
features = F.normalize(normal(36, 10) + F.one_hot(labels, 10).float(), p=1, dim=1)
idx = torch.randperm(36, generator=torch.Generator().manual_seed(0)).sort().values
train, test = idx[::2], idx[1::2]
net = reset(GAT(10, 16, 4, 3), scale=2.0)
optimizer = Adam(net.parameters(), lr=0.02, weight_decay=args.l2)
history = []
for epoch in range(args.epochs):
    net.train()
    optimizer.zero_grad()
    loss = nn.NLLLoss()(net(features, adj_mat)[train], labels[train])
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    with torch.no_grad():
        history.append(F.nll_loss(net.eval()(features, adj_mat)[test], labels[test]).item())
