import argparse
import logging
import os
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from dice_score import dice_loss
from portable import images, reset
from torch import optim
from torch.utils.data import DataLoader, TensorDataset, random_split
from unet_parts import UNet

dir_checkpoint = Path("./checkpoints/")


def train_model(model, device, epochs=2, batch_size=4, learning_rate=1e-3, amp=False, gradient_clipping=1.0):
    x, y = images(16, channels=3, size=14)
    masks = (x.mean(1) > 0.5).long()
    train_set, val_set = random_split(TensorDataset(x, masks), [16, 0], generator=torch.Generator().manual_seed(0))
    loader_args = dict(batch_size=batch_size, num_workers=0, pin_memory=False)
    train_loader = DataLoader(TensorDataset(x, masks), shuffle=False, **loader_args)
    optimizer = optim.RMSprop(model.parameters(), lr=learning_rate, weight_decay=1e-8, momentum=0.9, foreach=True)
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=0)
    grad_scaler = torch.cuda.amp.GradScaler(enabled=amp)
    criterion = nn.CrossEntropyLoss() if model.n_classes > 1 else nn.BCEWithLogitsLoss()
    history = []
    for epoch in range(1, epochs + 1):
        model.train()
        for images_, true_masks in train_loader:
            assert images_.shape[1] == model.n_channels
            images_ = images_.to(device=device, dtype=torch.float32, memory_format=torch.channels_last)
            true_masks = true_masks.to(device=device, dtype=torch.long)
            with torch.autocast(device.type if device.type != "mps" else "cpu", enabled=amp):
                masks_pred = model(images_)
                loss = criterion(masks_pred, true_masks)
                loss += dice_loss(
                    F.softmax(masks_pred, dim=1).float(),
                    F.one_hot(true_masks, model.n_classes).permute(0, 3, 1, 2).float(),
                    multiclass=True,
                )
            optimizer.zero_grad(set_to_none=True)
            grad_scaler.scale(loss).backward()
            grad_scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), gradient_clipping)
            grad_scaler.step(optimizer)
            grad_scaler.update()
            history.append(loss.item())
        scheduler.step(-history[-1])
        Path(dir_checkpoint).mkdir(parents=True, exist_ok=True)
        state_dict = model.state_dict()
        state_dict["mask_values"] = [0, 1]
        torch.save(state_dict, str(dir_checkpoint / f"checkpoint_epoch{epoch}.pth"))
        logging.info(f"Checkpoint {epoch} saved!")
    return history


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true", default=False)
    parser.add_argument("--bilinear", action="store_true", default=False)
    parser.add_argument("--load", "-f", type=str, default=False)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = UNet(n_channels=3, n_classes=2, bilinear=args.bilinear)
    model = reset(model).to(memory_format=torch.channels_last)
    model.to(device=device)
    try:
        history = train_model(model, device, amp=args.amp)
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        raise
    state_dict = torch.load(max(dir_checkpoint.glob("*.pth"), key=os.path.getmtime), map_location=device)
    mask_values = state_dict.pop("mask_values", [0, 1])
    model.load_state_dict(state_dict)
