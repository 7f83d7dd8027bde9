import torch
from torch import nn
from torch.autograd import Variable
from torch.nn import functional as F

from portable import normal, reset


def get_mask_from_lengths(lengths):
    max_len = torch.max(lengths).item()
    ids = torch.arange(0, max_len, out=torch.LongTensor(max_len))
    mask = (ids < lengths.unsqueeze(1)).bool()
    return mask


class LinearNorm(torch.nn.Module):
    def __init__(self, in_dim, out_dim, bias=True, w_init_gain='linear'):
        super(LinearNorm, self).__init__()
        self.linear_layer = torch.nn.Linear(in_dim, out_dim, bias=bias)
        torch.nn.init.xavier_uniform_(self.linear_layer.weight, gain=torch.nn.init.calculate_gain(w_init_gain))

    def forward(self, x):
        return self.linear_layer(x)


class ConvNorm(torch.nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size=1, stride=1, padding=None, dilation=1, bias=True, w_init_gain='linear'):
        super(ConvNorm, self).__init__()
        if padding is None:
            assert kernel_size % 2 == 1
            padding = int(dilation * (kernel_size - 1) / 2)
        self.conv = torch.nn.Conv1d(in_channels, out_channels, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation, bias=bias)

    def forward(self, signal):
        return self.conv(signal)


class LocationLayer(nn.Module):
    def __init__(self, attention_n_filters, attention_kernel_size, attention_dim):
        super(LocationLayer, self).__init__()
        self.location_conv = ConvNorm(2, attention_n_filters, kernel_size=attention_kernel_size, bias=False)
        self.location_dense = LinearNorm(attention_n_filters, attention_dim, bias=False, w_init_gain='tanh')

    def forward(self, attention_weights_cat):
        processed_attention = self.location_conv(attention_weights_cat)
        processed_attention = processed_attention.transpose(1, 2)
        return self.location_dense(processed_attention)


class Attention(nn.Module):
    def __init__(self, rnn_dim, embedding_dim, attention_dim):
        super(Attention, self).__init__()
        self.query_layer = LinearNorm(rnn_dim, attention_dim, bias=False, w_init_gain='tanh')
        self.memory_layer = LinearNorm(embedding_dim, attention_dim, bias=False, w_init_gain='tanh')
        self.v = LinearNorm(attention_dim, 1, bias=False)
        self.location_layer = LocationLayer(4, 5, attention_dim)
        self.score_mask_value = -float("inf")

    def forward(self, attention_hidden_state, memory, processed_memory, attention_weights_cat, mask):
        processed_query = self.query_layer(attention_hidden_state.unsqueeze(1))
        energies = self.v(torch.tanh(processed_query + self.location_layer(attention_weights_cat) + processed_memory))
        alignment = energies.squeeze(-1)
        if mask is not None:
            alignment.data.masked_fill_(mask, self.score_mask_value)
        attention_weights = F.softmax(alignment, dim=1)
        attention_context = torch.bmm(attention_weights.unsqueeze(1), memory)
        return attention_context.squeeze(1), attention_weights


class Encoder(nn.Module):
    def __init__(self, dim):
        super(Encoder, self).__init__()
        self.convolutions = nn.ModuleList([nn.Sequential(ConvNorm(dim, dim, kernel_size=5, w_init_gain='relu'), nn.BatchNorm1d(dim)) for _ in range(2)])
        self.lstm = nn.LSTM(dim, dim // 2, 1, batch_first=True, bidirectional=True)

    def forward(self, x, input_lengths):
        for conv in self.convolutions:
            x = F.dropout(F.relu(conv(x)), 0.0, self.training)
        x = x.transpose(1, 2)
        input_lengths = input_lengths.cpu().numpy()
        x = nn.utils.rnn.pack_padded_sequence(x, input_lengths, batch_first=True)
        self.lstm.flatten_parameters()
        outputs, _ = self.lstm(x)
        outputs, _ = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)
        return outputs


class Tacotron2(nn.Module):
    def __init__(self, n_symbols=10, dim=16, n_mels=6):
        super(Tacotron2, self).__init__()
        self.embedding = nn.Embedding(n_symbols, dim)
        self.encoder = Encoder(dim)
        self.prenet = nn.ModuleList([LinearNorm(n_mels, dim, bias=False), LinearNorm(dim, dim, bias=False)])
        self.attention_rnn = nn.LSTMCell(dim * 2, dim)
        self.attention_layer = Attention(dim, dim, 8)
        self.decoder_rnn = nn.LSTMCell(dim * 2, dim, 1)
        self.linear_projection = LinearNorm(dim * 2, n_mels)
        self.gate_layer = LinearNorm(dim * 2, 1, bias=True, w_init_gain='sigmoid')
        self.n_mels = n_mels

    def forward(self, text, lengths, mels):
        memory = self.encoder(self.embedding(text).transpose(1, 2), lengths)
        B, T = memory.size(0), memory.size(1)
        h, c, dh, dc, ctx = (Variable(memory.data.new(B, 16).zero_()) for _ in range(5))
        weights, weights_cum = (Variable(memory.data.new(B, T).zero_()) for _ in range(2))
        processed_memory = self.attention_layer.memory_layer(memory)
        mask = ~get_mask_from_lengths(lengths)
        go = Variable(memory.data.new(B, self.n_mels).zero_()).unsqueeze(0)
        decoder_inputs = torch.cat((go, mels.permute(2, 0, 1)), dim=0)
        for layer in self.prenet:
            decoder_inputs = F.relu(layer(decoder_inputs))
        mel_outputs, gate_outputs, alignments = [], [], []
        while len(mel_outputs) < decoder_inputs.size(0) - 1:
            decoder_input = decoder_inputs[len(mel_outputs)]
            h, c = self.attention_rnn(torch.cat((decoder_input, ctx), -1), (h, c))
            weights_cat = torch.cat((weights.unsqueeze(1), weights_cum.unsqueeze(1)), dim=1)
            ctx, weights = self.attention_layer(h, memory, processed_memory, weights_cat, mask)
            weights_cum = weights_cum + weights
            dh, dc = self.decoder_rnn(torch.cat((h, ctx), -1), (dh, dc))
            out = torch.cat((dh, ctx), dim=1)
            mel_outputs += [self.linear_projection(out).squeeze(1)]
            gate_outputs += [self.gate_layer(out).squeeze(1)]
            alignments += [weights]
        return torch.stack(mel_outputs).permute(1, 2, 0), torch.stack(gate_outputs).transpose(0, 1).contiguous(), torch.stack(alignments).transpose(0, 1)


model = reset(Tacotron2())
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-6)
text = torch.tensor([[1, 2, 3, 4, 5, 6], [7, 8, 9, 1, 0, 0], [3, 3, 2, 0, 0, 0]])
lengths = torch.LongTensor([6, 4, 3])
mels, gates = normal(3, 6, 8), torch.zeros(3, 8)
gates[:, -2:] = 1
history = []
for iteration in range(8):
    model.zero_grad()
    mel_out, gate_out, alignments = model(text, lengths, mels)
    loss = nn.MSELoss()(mel_out, mels) + nn.BCEWithLogitsLoss()(gate_out.view(-1, 1), gates.view(-1, 1))
    loss.backward()
    grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    history += [loss.item(), float(grad_norm)]
