import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from portable import normal, reset


class MaskConv(nn.Module):
    def __init__(self, seq_module):
        super(MaskConv, self).__init__()
        self.seq_module = seq_module

    def forward(self, x, lengths):
        for module in self.seq_module:
            x = module(x)
            mask = torch.BoolTensor(x.size()).fill_(0)
            for i, length in enumerate(lengths):
                length = length.item()
                if (mask[i].size(2) - length) > 0:
                    mask[i].narrow(2, length, mask[i].size(2) - length).fill_(1)
            x = x.masked_fill(mask, 0)
        return x, lengths


class SequenceWise(nn.Module):
    def __init__(self, module):
        super(SequenceWise, self).__init__()
        self.module = module

    def forward(self, x):
        t, n = x.size(0), x.size(1)
        x = x.view(t * n, -1)
        x = self.module(x)
        return x.view(t, n, -1)


class BatchRNN(nn.Module):
    def __init__(self, input_size, hidden_size, rnn_type=nn.LSTM, bidirectional=False, batch_norm=True):
        super(BatchRNN, self).__init__()
        self.batch_norm = SequenceWise(nn.BatchNorm1d(input_size)) if batch_norm else None
        self.rnn = rnn_type(input_size=input_size, hidden_size=hidden_size, bidirectional=bidirectional, bias=True)

    def forward(self, x, output_lengths):
        if self.batch_norm is not None:
            x = self.batch_norm(x)
        x = pack_padded_sequence(x, output_lengths, enforce_sorted=False)
        x, h = self.rnn(x)
        x, _ = pad_packed_sequence(x)
        return x.view(x.size(0), x.size(1), 2, -1).sum(2).view(x.size(0), x.size(1), -1)


class DeepSpeech(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = MaskConv(nn.Sequential(nn.Conv2d(1, 2, (3, 3), padding=1), nn.BatchNorm2d(2), nn.Hardtanh(0, 20, inplace=True)))
        self.rnns = nn.Sequential(BatchRNN(16, 12, nn.GRU, True, False), BatchRNN(12, 12, nn.GRU, True))
        self.fc = nn.Sequential(SequenceWise(nn.Sequential(nn.BatchNorm1d(12), nn.Linear(12, 6, bias=False))))

    def forward(self, x, lengths):
        x, output_lengths = self.conv(x, lengths)
        sizes = x.size()
        x = x.view(sizes[0], sizes[1] * sizes[2], sizes[3])
        x = x.transpose(1, 2).transpose(0, 1).contiguous()
        for rnn in self.rnns:
            x = rnn(x, output_lengths)
        return self.fc(x), output_lengths


def decode(out, lengths):
    strings = []
    for row, n in zip(out.transpose(0, 1).argmax(-1), lengths):
        collapsed = torch.unique_consecutive(row[:n])
        strings.append(collapsed[collapsed != 0].tolist())
    return strings


model = reset(DeepSpeech())
x = normal(4, 1, 8, 20)
lengths = torch.tensor([20, 14, 18, 11], dtype=torch.int)
targets = torch.IntTensor([1, 2, 3, 1, 4, 2, 5, 1, 3, 3, 2])
target_sizes = torch.IntTensor([3, 2, 4, 2])
criterion = nn.CTCLoss(reduction='sum', zero_infinity=True)
optimizer = torch.optim.SGD(model.parameters(), lr=3e-3, momentum=0.9, nesterov=True, weight_decay=1e-5)
history = []
for i in range(8):
    out, output_sizes = model(x, lengths)
    loss = criterion(out.float().log_softmax(2), targets, output_sizes, target_sizes) / x.size(0)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), 40)
    optimizer.step()
    history.append(loss.item())
print(decode(out, lengths))
