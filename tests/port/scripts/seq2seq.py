import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from portable import reset

PAD_token, SOS_token, EOS_token = 0, 1, 2
rnd = random.Random(0)
pairs = []
for _ in range(24):
    n = rnd.randint(2, 6)
    words = [rnd.randint(3, 11) for _ in range(n)]
    pairs.append((words + [EOS_token], words[::-1] + [EOS_token]))


def collate(batch):
    batch = sorted(batch, key=lambda p: len(p[0]), reverse=True)
    lengths = torch.tensor([len(p[0]) for p in batch])
    inp = pad_sequence([torch.tensor(p[0]) for p in batch], padding_value=PAD_token)
    out = pad_sequence([torch.tensor(p[1]) for p in batch], padding_value=PAD_token)
    mask = torch.BoolTensor((out != PAD_token).tolist())
    return inp, lengths, out, mask, out.size(0)


class EncoderRNN(nn.Module):
    def __init__(self, hidden_size, embedding, n_layers=1, dropout=0):
        super(EncoderRNN, self).__init__()
        self.n_layers = n_layers
        self.hidden_size = hidden_size
        self.embedding = embedding
        self.gru = nn.GRU(hidden_size, hidden_size, n_layers, dropout=(0 if n_layers == 1 else dropout), bidirectional=True)

    def forward(self, input_seq, input_lengths, hidden=None):
        embedded = self.embedding(input_seq)
        packed = pack_padded_sequence(embedded, input_lengths)
        outputs, hidden = self.gru(packed, hidden)
        outputs, _ = pad_packed_sequence(outputs)
        outputs = outputs[:, :, :self.hidden_size] + outputs[:, :, self.hidden_size:]
        return outputs, hidden


class Attn(nn.Module):
    def __init__(self, method, hidden_size):
        super(Attn, self).__init__()
        self.method = method
        if self.method not in ['dot', 'general', 'concat']:
            raise ValueError(self.method, "is not an appropriate attention method.")
        self.attn = nn.Linear(hidden_size * 2, hidden_size)
        self.v = nn.Parameter(torch.FloatTensor(hidden_size))

    def forward(self, hidden, encoder_outputs):
        energy = self.attn(torch.cat((hidden.expand(encoder_outputs.size(0), -1, -1), encoder_outputs), 2)).tanh()
        attn_energies = torch.sum(self.v * energy, dim=2)
        attn_energies = attn_energies.t()
        return F.softmax(attn_energies, dim=1).unsqueeze(1)


class LuongAttnDecoderRNN(nn.Module):
    def __init__(self, embedding, hidden_size, output_size):
        super(LuongAttnDecoderRNN, self).__init__()
        self.embedding = embedding
        self.gru = nn.GRU(hidden_size, hidden_size)
        self.concat = nn.Linear(hidden_size * 2, hidden_size)
        self.out = nn.Linear(hidden_size, output_size)
        self.attn = Attn('concat', hidden_size)

    def forward(self, input_step, last_hidden, encoder_outputs):
        embedded = self.embedding(input_step)
        rnn_output, hidden = self.gru(embedded, last_hidden)
        attn_weights = self.attn(rnn_output, encoder_outputs)
        context = attn_weights.bmm(encoder_outputs.transpose(0, 1))
        rnn_output = rnn_output.squeeze(0)
        context = context.squeeze(1)
        concat_output = torch.tanh(self.concat(torch.cat((rnn_output, context), 1)))
        return F.softmax(self.out(concat_output), dim=1), hidden


def maskNLLLoss(inp, target, mask):
    nTotal = mask.sum()
    crossEntropy = -torch.log(torch.gather(inp, 1, target.view(-1, 1)).squeeze(1))
    loss = crossEntropy.masked_select(mask).mean()
    return loss, nTotal.item()


embedding = nn.Embedding(12, 16)
encoder = EncoderRNN(16, embedding)
decoder = LuongAttnDecoderRNN(embedding, 16, 12)
reset(nn.ModuleList([encoder, decoder]), 5)
encoder_optimizer = optim.Adam(encoder.parameters(), lr=5e-3)
decoder_optimizer = optim.Adam(decoder.parameters(), lr=5e-3 * 5.0)
history = []
for iteration in range(10):
    inp, lengths, out, mask, max_target_len = collate(pairs[6 * (iteration % 4):6 * (iteration % 4) + 6])
    encoder_optimizer.zero_grad()
    decoder_optimizer.zero_grad()
    loss = 0
    print_losses = []
    n_totals = 0
    encoder_outputs, encoder_hidden = encoder(inp, lengths)
    decoder_input = torch.LongTensor([[SOS_token for _ in range(6)]])
    decoder_hidden = encoder_hidden[:1]
    use_teacher_forcing = True if rnd.random() < 0.6 else False
    for t in range(max_target_len):
        decoder_output, decoder_hidden = decoder(decoder_input, decoder_hidden, encoder_outputs)
        if use_teacher_forcing:
            decoder_input = out[t].view(1, -1)
        else:
            _, topi = decoder_output.topk(1)
            decoder_input = torch.LongTensor([[topi[i][0] for i in range(6)]])
        mask_loss, nTotal = maskNLLLoss(decoder_output, out[t], mask[t])
        loss += mask_loss
        print_losses.append(mask_loss.item() * nTotal)
        n_totals += nTotal
    loss.backward()
    _ = nn.utils.clip_grad_norm_(encoder.parameters(), 50.0)
    _ = nn.utils.clip_grad_norm_(decoder.parameters(), 50.0)
    encoder_optimizer.step()
    decoder_optimizer.step()
    history.append(sum(print_losses) / n_totals)
torch.save({'iteration': 10, 'en': encoder.state_dict(), 'de': decoder.state_dict(),
            'en_opt': encoder_optimizer.state_dict(), 'embedding': embedding.state_dict(), 'loss': history[-1]}, 'ck.tar')
checkpoint = torch.load('ck.tar', map_location=torch.device('cpu'))
encoder_optimizer.load_state_dict(checkpoint['en_opt'])
