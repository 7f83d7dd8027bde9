import pickle
from collections import defaultdict

import torch
from torch.utils.data import Dataset
from torch.utils.data.dataloader import DataLoader

from model import GPT
from portable import reset


class CfgNode:
    def __init__(self, **kwargs):
        self.__dict__.update(kwargs)

    def merge_from_dict(self, d):
        self.__dict__.update(d)


class SortDataset(Dataset):
    def __init__(self, split, length=6, num_digits=3):
        assert split in {'train', 'test'}
        self.length, self.num_digits = length, num_digits

    def __len__(self):
        return 64

    def __getitem__(self, idx):
        inp = torch.tensor([(idx * 7 + j * j * 5) % self.num_digits for j in range(self.length)], dtype=torch.long)
        h = hash(pickle.dumps(inp.tolist()))
        sol = torch.sort(inp)[0]
        cat = torch.cat((inp, sol), dim=0)
        x = cat[:-1].clone()
        y = cat[1:].clone()
        y[:self.length - 1] = -1
        return x, y


class Trainer:
    def __init__(self, config, model, train_dataset):
        self.config, self.model, self.train_dataset = config, model, train_dataset
        self.callbacks = defaultdict(list)
        self.device = 'cuda' if torch.cuda.is_available() else 'cpu'
        self.model = self.model.to(self.device)

    def add_callback(self, onevent, callback):
        self.callbacks[onevent].append(callback)

    def trigger_callbacks(self, onevent):
        for callback in self.callbacks.get(onevent, []):
            callback(self)

    def run(self):
        model, config = self.model, self.config
        self.optimizer = model.configure_optimizers(config)
        train_loader = DataLoader(self.train_dataset, shuffle=False, pin_memory=True, batch_size=8, num_workers=0)
        model.train()
        self.iter_num = 0
        data_iter = iter(train_loader)
        while True:
            try:
                batch = next(data_iter)
            except StopIteration:
                data_iter = iter(train_loader)
                batch = next(data_iter)
            batch = [t.to(self.device) for t in batch]
            x, y = batch
            logits, self.loss = model(x, y)
            model.zero_grad(set_to_none=True)
            self.loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.grad_norm_clip)
            self.optimizer.step()
            self.trigger_callbacks('on_batch_end')
            self.iter_num += 1
            if self.iter_num >= config.max_iters:
                break


model = GPT(CfgNode(n_layer=2, n_head=2, n_embd=16, vocab_size=3, block_size=11, embd_pdrop=0.0, resid_pdrop=0.0, attn_pdrop=0.0))
reset(model, 2, 0.3)
config = CfgNode(max_iters=10, learning_rate=3e-3, betas=(0.9, 0.95), weight_decay=0.1, grad_norm_clip=1.0)
trainer = Trainer(config, model, SortDataset('train'))
history = []
trainer.add_callback('on_batch_end', lambda trainer: history.append(trainer.loss.item()))
trainer.run()
model.eval()
inp = torch.tensor([[0, 0, 2, 1, 0, 1]], dtype=torch.long)
history += model.generate(inp, 6, do_sample=False, top_k=2)[0].float().mean(0, keepdim=True).tolist()
