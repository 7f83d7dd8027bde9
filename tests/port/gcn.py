"""A graph convolutional network by matrix products: normalised adjacency, semi-supervised nodes, Glorot weights."""

import numpy as np

NODES, FEATURES, CLASSES = 30, 8, 3


def data(torch):
    """A graph of three communities with noisy features; a third of the labels is known."""
    rng = np.random.default_rng(7)
    label = np.arange(NODES) % CLASSES
    chance = np.where(label[:, None] == label[None], 0.4, 0.05)
    upper = np.triu(rng.random((NODES, NODES)) < chance, 1)
    adjacency = (upper | upper.T).astype(np.float32)
    features = rng.normal(size=(NODES, FEATURES)) + 0.5 * np.eye(CLASSES, FEATURES)[label]
    known = rng.random(NODES) < 0.34
    arrays = adjacency, features.astype(np.float32), label, known
    return tuple(torch.from_numpy(a) for a in arrays)


def build(torch):
    nn = torch.nn

    class GraphConvolution(nn.Module):
        def __init__(self, width_in, width_out):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(width_in, width_out))
            self.bias = nn.Parameter(torch.zeros(width_out))
            nn.init.xavier_uniform_(self.weight)

        def forward(self, x, adjacency):
            return adjacency @ (x @ self.weight) + self.bias

    class GCN(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([GraphConvolution(FEATURES, 16), GraphConvolution(16, CLASSES)])

        def forward(self, x, adjacency):
            loops = adjacency + torch.eye(adjacency.shape[0])
            scale = loops.sum(1).rsqrt()
            normalised = scale[:, None] * loops * scale[None, :]
            for layer in self.layers[:-1]:
                x = torch.relu(layer(x, normalised))
            return self.layers[-1](x, normalised)

    return GCN()


def run(torch, steps, start=None):
    model = build(torch)
    if start is not None:
        model.load_state_dict({name: torch.from_numpy(value) for name, value in start.items()})
    adjacency, x, label, known = data(torch)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05, weight_decay=5e-4)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        log_probability = torch.log_softmax(model(x, adjacency), dim=1)
        loss = torch.nn.functional.nll_loss(log_probability[known], label[known])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
