# A trainer without a framework: dataclass arguments, callbacks, samplers, gradient accumulation, checkpoints that rotate
import glob
import logging
import math
import os
import random
from dataclasses import asdict, dataclass, field
from typing import Dict, Iterator, List, Optional, Tuple

import numpy as np
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import (
    BatchSampler, ConcatDataset, DataLoader, Dataset, IterableDataset, RandomSampler, Sampler, SequentialSampler, Subset,
    SubsetRandomSampler, TensorDataset, WeightedRandomSampler, default_collate, get_worker_info, random_split,
)

from portable import labels, normal, reset

logger = logging.getLogger(__name__)


@dataclass
class TrainingArguments:
    output_dir: str = "out"
    num_train_epochs: int = 3
    per_device_train_batch_size: int = 4
    gradient_accumulation_steps: int = 2
    learning_rate: float = 2e-2
    weight_decay: float = 0.01
    warmup_ratio: float = 0.2
    max_grad_norm: float = 1.0
    save_total_limit: Optional[int] = 2
    label_names: List[str] = field(default_factory=lambda: ["labels"])


def set_seed(seed: int):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.use_deterministic_algorithms(True, warn_only=True)


class LengthGroupedSampler(Sampler[int]):
    def __init__(self, lengths: List[int], batch_size: int):
        self.lengths, self.batch_size = lengths, batch_size

    def __len__(self):
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(range(len(self.lengths)), key=lambda i: (-self.lengths[i], i)))


class Rows(Dataset):
    def __init__(self, n, seed):
        self.x, self.y = normal(n, 6, seed=seed), labels(n, 3, seed=seed)
        self.lengths = np.random.RandomState(seed).randint(2, 7, n).tolist()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = self.x[i].clone()
        x[self.lengths[i]:] = 0
        return {"input": x, "labels": self.y[i], "length": self.lengths[i]}


class Stream(IterableDataset):
    def __init__(self, start, end):
        super().__init__()
        self.start, self.end = start, end

    def __iter__(self):
        info = get_worker_info()
        low, high = self.start, self.end
        if info is not None:
            per = int(math.ceil((self.end - self.start) / info.num_workers))
            low, high = self.start + info.id * per, min(self.start + (info.id + 1) * per, self.end)
        return iter(range(low, high))


def collate(rows: List[Dict]) -> Dict[str, torch.Tensor]:
    batch = default_collate(rows)
    batch["attention_mask"] = torch.arange(6)[None, :] < batch["length"][:, None]
    return batch


class TrainerCallback:
    def on_log(self, logs: Dict[str, float]): ...


class HistoryCallback(TrainerCallback):
    def on_log(self, logs):
        history.append(logs["loss"])


class Trainer:
    def __init__(self, model, args, train_dataset, eval_dataset, callbacks: Tuple[TrainerCallback, ...] = ()):
        self.model, self.args, self.callbacks = model, args, callbacks
        self.train_dataset, self.eval_dataset = train_dataset, eval_dataset

    def get_train_dataloader(self):
        lengths = [row["length"] for row in self.train_dataset]
        sampler = BatchSampler(LengthGroupedSampler(lengths, 4), batch_size=self.args.per_device_train_batch_size, drop_last=False)
        return DataLoader(self.train_dataset, batch_sampler=sampler, collate_fn=collate, pin_memory=torch.cuda.is_available())

    def create_optimizer_and_scheduler(self, num_training_steps: int):
        no_decay = ["bias", "LayerNorm.weight", "norm"]
        groups = [
            {"params": [p for n, p in self.model.named_parameters() if not any(nd in n for nd in no_decay)], "weight_decay": self.args.weight_decay},
            {"params": [p for n, p in self.model.named_parameters() if any(nd in n for nd in no_decay)], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=self.args.learning_rate, betas=(0.9, 0.98), eps=1e-8, foreach=False)
        warmup = math.ceil(num_training_steps * self.args.warmup_ratio)

        def lr_lambda(current_step):
            if current_step < warmup:
                return float(current_step + 1) / float(max(1, warmup))
            return max(0.0, 0.5 * (1.0 + math.cos(math.pi * float(current_step - warmup) / float(max(1, num_training_steps - warmup)))))

        self.lr_scheduler = LambdaLR(self.optimizer, lr_lambda, -1)

    def compute_loss(self, batch):
        logits = self.model(batch["input"] * batch["attention_mask"].to(self.model[0].weight.dtype))
        return nn.functional.cross_entropy(logits.float(), batch["labels"], label_smoothing=0.05, reduction="mean")

    def train(self):
        loader = self.get_train_dataloader()
        steps = self.args.num_train_epochs * math.ceil(len(loader) / self.args.gradient_accumulation_steps)
        self.create_optimizer_and_scheduler(steps)
        step = 0
        for epoch in range(self.args.num_train_epochs):
            self.model.train()
            tr_loss = torch.tensor(0.0)
            for i, batch in enumerate(loader):
                loss = self.compute_loss(batch) / self.args.gradient_accumulation_steps
                loss.backward()
                tr_loss += loss.detach()
                if (i + 1) % self.args.gradient_accumulation_steps == 0 or i + 1 == len(loader):
                    norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm, error_if_nonfinite=True)
                    self.optimizer.step()
                    self.lr_scheduler.step()
                    self.model.zero_grad()
                    step += 1
                    for callback in self.callbacks:
                        callback.on_log({"loss": tr_loss.item(), "norm": norm.item(), "lr": self.lr_scheduler.get_last_lr()[0]})
                    tr_loss -= tr_loss
            self.save(step)

    def save(self, step):
        folder = os.path.join(self.args.output_dir, f"checkpoint-{step}")
        os.makedirs(folder, exist_ok=True)
        torch.save(self.model.state_dict(), os.path.join(folder, "pytorch_model.bin"))
        torch.save(self.optimizer.state_dict(), os.path.join(folder, "optimizer.pt"))
        torch.save({"args": asdict(self.args), "rng": torch.random.get_rng_state()}, os.path.join(folder, "training_args.bin"))
        kept = sorted(glob.glob(os.path.join(self.args.output_dir, "checkpoint-*")), key=lambda p: int(p.rsplit("-", 1)[1]))
        for old in kept[: -self.args.save_total_limit]:
            for file in os.listdir(old):
                os.remove(os.path.join(old, file))
            os.rmdir(old)

    @torch.inference_mode()
    def evaluate(self):
        self.model.eval()
        losses = [self.compute_loss(b).repeat(len(b["labels"])) for b in DataLoader(self.eval_dataset, 5, sampler=SequentialSampler(self.eval_dataset), collate_fn=collate)]
        return torch.cat(losses).mean().item()


set_seed(0)
history = []
data = ConcatDataset([Rows(16, 0), Rows(12, 1)])
train, held = random_split(data, [0.75, 0.25], generator=torch.Generator().manual_seed(42))
assert (len(train), len(held)) == (21, 7) and not set(train.indices) & set(held.indices)
trainer = Trainer(reset(nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3))), TrainingArguments(),
                  Subset(data, range(20)), Subset(data, list(range(20, 28))), (HistoryCallback(),))
history.append(trainer.evaluate())
trainer.train()
history.append(trainer.evaluate())
assert len(os.listdir("out")) == 2
state = torch.load(sorted(glob.glob("out/*/optimizer.pt"))[-1], map_location="cpu", weights_only=True)
trainer.optimizer.load_state_dict(state)
drawn = list(WeightedRandomSampler([0.0, 1.0, 0.0, 3.0], 50, replacement=True))
assert set(drawn) == {1, 3} and sorted(WeightedRandomSampler(torch.ones(5), 5, False)) == list(range(5))
assert sorted(RandomSampler(range(6))) == list(range(6)) and sorted(SubsetRandomSampler([3, 1])) == [1, 3]
loader = DataLoader(TensorDataset(normal(9, 2)), batch_size=4, shuffle=True, drop_last=True, generator=torch.Generator().manual_seed(1), persistent_workers=False)
assert len(loader) == 2 and [len(b[0]) for b in loader] == [4, 4]
assert torch.cat([b for b in DataLoader(Stream(3, 11), batch_size=3)]).tolist() == list(range(3, 11))
