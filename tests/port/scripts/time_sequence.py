import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from portable import reset


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1 = nn.LSTMCell(1, 11)
        self.lstm2 = nn.LSTMCell(11, 11)
        self.linear = nn.Linear(11, 1)

    def forward(self, input, future=0):
        outputs = []
        h_t = torch.zeros(input.size(0), 11, dtype=torch.double)
        c_t = torch.zeros(input.size(0), 11, dtype=torch.double)
        h_t2 = torch.zeros(input.size(0), 11, dtype=torch.double)
        c_t2 = torch.zeros(input.size(0), 11, dtype=torch.double)
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        for i in range(future):
            h_t, c_t = self.lstm1(output, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        outputs = torch.cat(outputs, dim=1)
        return outputs


if __name__ == "__main__":
    np.random.seed(2)
    x = np.arange(15)[None] + np.random.randint(-8, 8, (6, 1))
    data = np.sin(x / 3.0).astype("float64")
    input, target = torch.from_numpy(data[3:, :-1]), torch.from_numpy(data[3:, 1:])
    seq = Sequence()
    seq.double()
    reset(seq)
    criterion = nn.MSELoss()
    optimizer = optim.LBFGS(seq.parameters(), lr=0.8, max_iter=4)
    history = []
    for i in range(2):

        def closure():
            optimizer.zero_grad()
            out = seq(input)
            loss = criterion(out, target)
            history.append(loss.item())
            loss.backward()
            return loss

        optimizer.step(closure)
        with torch.no_grad():
            pred = seq(input, future=5)
            history.append(criterion(pred[:, :-5], target).item())
            y = pred.detach().numpy()
