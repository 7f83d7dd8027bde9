import copy
from typing import List, Optional

import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from portable import images, reset


class NestedTensor(object):
    def __init__(self, tensors, mask: Optional[Tensor]):
        self.tensors = tensors
        self.mask = mask

    def decompose(self):
        return self.tensors, self.mask


def nested_tensor_from_tensor_list(tensor_list: List[Tensor]):
    max_size = [max(s) for s in zip(*[list(img.shape) for img in tensor_list])]
    b, c, h, w = [len(tensor_list)] + max_size
    tensor = torch.zeros([b, c, h, w], dtype=tensor_list[0].dtype)
    mask = torch.ones((b, h, w), dtype=torch.bool)
    for img, pad_img, m in zip(tensor_list, tensor, mask):
        pad_img[: img.shape[0], : img.shape[1], : img.shape[2]].copy_(img)
        m[: img.shape[1], :img.shape[2]] = False
    return NestedTensor(tensor, mask)


class FrozenBatchNorm2d(torch.nn.Module):
    def __init__(self, n):
        super(FrozenBatchNorm2d, self).__init__()
        self.register_buffer("weight", torch.ones(n))
        self.register_buffer("bias", torch.zeros(n))
        self.register_buffer("running_mean", torch.zeros(n))
        self.register_buffer("running_var", torch.ones(n))

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        num_batches_tracked_key = prefix + 'num_batches_tracked'
        if num_batches_tracked_key in state_dict:
            del state_dict[num_batches_tracked_key]
        super(FrozenBatchNorm2d, self)._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def forward(self, x):
        w, b, rv, rm = (t.reshape(1, -1, 1, 1) for t in (self.weight, self.bias, self.running_var, self.running_mean))
        scale = w * (rv + 1e-5).rsqrt()
        return x * scale + (b - rm * scale)


class PositionEmbeddingSine(nn.Module):
    def __init__(self, num_pos_feats=8, temperature=10000):
        super().__init__()
        self.num_pos_feats, self.temperature = num_pos_feats, temperature

    def forward(self, mask):
        not_mask = ~mask
        y_embed = not_mask.cumsum(1, dtype=torch.float32)
        x_embed = not_mask.cumsum(2, dtype=torch.float32)
        dim_t = torch.arange(self.num_pos_feats, dtype=torch.float32)
        dim_t = self.temperature ** (2 * torch.div(dim_t, 2, rounding_mode='floor') / self.num_pos_feats)
        pos_x = x_embed[:, :, :, None] / dim_t
        pos_y = y_embed[:, :, :, None] / dim_t
        pos_x = torch.stack((pos_x[:, :, :, 0::2].sin(), pos_x[:, :, :, 1::2].cos()), dim=4).flatten(3)
        pos_y = torch.stack((pos_y[:, :, :, 0::2].sin(), pos_y[:, :, :, 1::2].cos()), dim=4).flatten(3)
        return torch.cat((pos_y, pos_x), dim=3).permute(0, 3, 1, 2)


class DecoderLayer(nn.Module):
    def __init__(self, d_model, nhead):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=0.0)
        self.multihead_attn = nn.MultiheadAttention(d_model, nhead, dropout=0.0)
        self.linear1, self.linear2 = nn.Linear(d_model, 32), nn.Linear(32, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.activation = F.gelu

    def with_pos_embed(self, tensor, pos: Optional[Tensor]):
        return tensor if pos is None else tensor + pos

    def forward(self, tgt, memory, memory_key_padding_mask: Optional[Tensor] = None, pos: Optional[Tensor] = None, query_pos: Optional[Tensor] = None):
        q = k = self.with_pos_embed(tgt, query_pos)
        tgt = self.norm1(tgt + self.self_attn(q, k, value=tgt)[0])
        tgt2 = self.multihead_attn(query=self.with_pos_embed(tgt, query_pos), key=self.with_pos_embed(memory, pos), value=memory,
                                   attn_mask=None, key_padding_mask=memory_key_padding_mask)[0]
        return self.norm2(tgt + tgt2 + self.linear2(self.activation(self.linear1(tgt))))


class DETR(nn.Module):
    def __init__(self, num_classes, num_queries, hidden_dim=16):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, hidden_dim, 3, 4, 1), FrozenBatchNorm2d(hidden_dim), nn.ReLU())
        self.position = PositionEmbeddingSine()
        layer = DecoderLayer(hidden_dim, 2)
        self.layers = nn.ModuleList([copy.deepcopy(layer) for i in range(2)])
        self.class_embed = nn.Linear(hidden_dim, num_classes + 1)
        self.bbox_embed = nn.Sequential(nn.Linear(hidden_dim, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, 4))
        self.query_embed = nn.Embedding(num_queries, hidden_dim)

    def forward(self, samples: NestedTensor):
        if isinstance(samples, (list, torch.Tensor)):
            samples = nested_tensor_from_tensor_list(samples)
        src = self.backbone(samples.tensors)
        m = samples.mask
        mask = F.interpolate(m[None].float(), size=src.shape[-2:]).to(torch.bool)[0]
        pos = self.position(mask).flatten(2).permute(2, 0, 1)
        bs = src.shape[0]
        src, mask = src.flatten(2).permute(2, 0, 1), mask.flatten(1)
        query_embed = self.query_embed.weight.unsqueeze(1).repeat(1, bs, 1)
        tgt = torch.zeros_like(query_embed)
        hs = []
        for layer in self.layers:
            tgt = layer(tgt, src, memory_key_padding_mask=mask, pos=pos, query_pos=query_embed)
            hs.append(tgt)
        hs = torch.stack(hs).transpose(1, 2)
        out = {'pred_logits': self.class_embed(hs)[-1], 'pred_boxes': self.bbox_embed(hs).sigmoid()[-1]}
        out['aux_outputs'] = self._set_aux_loss(self.class_embed(hs), self.bbox_embed(hs).sigmoid())
        return out

    @torch.jit.unused
    def _set_aux_loss(self, outputs_class, outputs_coord):
        return [{'pred_logits': a, 'pred_boxes': b} for a, b in zip(outputs_class[:-1], outputs_coord[:-1])]


def box_cxcywh_to_xyxy(x):
    x_c, y_c, w, h = x.unbind(-1)
    return torch.stack([(x_c - 0.5 * w), (y_c - 0.5 * h), (x_c + 0.5 * w), (y_c + 0.5 * h)], dim=-1)


def generalized_box_iou(boxes1, boxes2):
    assert (boxes1[:, 2:] >= boxes1[:, :2]).all()
    area1, area2 = ((b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1]) for b in (boxes1, boxes2))
    lt = torch.max(boxes1[:, None, :2], boxes2[:, :2])
    rb = torch.min(boxes1[:, None, 2:], boxes2[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[:, :, 0] * wh[:, :, 1]
    union = area1[:, None] + area2 - inter
    lt = torch.min(boxes1[:, None, :2], boxes2[:, :2])
    rb = torch.max(boxes1[:, None, 2:], boxes2[:, 2:])
    wh = (rb - lt).clamp(min=0)
    area = wh[:, :, 0] * wh[:, :, 1]
    return inter / union - (area - union) / area


class HungarianMatcher(nn.Module):
    @torch.no_grad()
    def forward(self, outputs, targets):
        bs, num_queries = outputs["pred_logits"].shape[:2]
        out_prob = outputs["pred_logits"].flatten(0, 1).softmax(-1)
        out_bbox = outputs["pred_boxes"].flatten(0, 1)
        tgt_ids = torch.cat([v["labels"] for v in targets])
        tgt_bbox = torch.cat([v["boxes"] for v in targets])
        cost_class = -out_prob[:, tgt_ids]
        cost_bbox = torch.cdist(out_bbox, tgt_bbox, p=1)
        cost_giou = -generalized_box_iou(box_cxcywh_to_xyxy(out_bbox), box_cxcywh_to_xyxy(tgt_bbox))
        C = (5 * cost_bbox + cost_class + 2 * cost_giou).view(bs, num_queries, -1).cpu()
        sizes = [len(v["boxes"]) for v in targets]
        indices = [linear_sum_assignment(c[i]) for i, c in enumerate(C.split(sizes, -1))]
        return [(torch.as_tensor(i, dtype=torch.int64), torch.as_tensor(j, dtype=torch.int64)) for i, j in indices]


class SetCriterion(nn.Module):
    def __init__(self, num_classes, matcher, eos_coef=0.1):
        super().__init__()
        self.num_classes, self.matcher = num_classes, matcher
        empty_weight = torch.ones(self.num_classes + 1)
        empty_weight[-1] = eos_coef
        self.register_buffer('empty_weight', empty_weight)

    def forward(self, outputs, targets):
        total = 0
        for out in [{k: v for k, v in outputs.items() if k != 'aux_outputs'}] + outputs['aux_outputs']:
            indices = self.matcher(out, targets)
            idx = (torch.cat([torch.full_like(src, i) for i, (src, _) in enumerate(indices)]), torch.cat([src for (src, _) in indices]))
            target_classes_o = torch.cat([t["labels"][J] for t, (_, J) in zip(targets, indices)])
            target_classes = torch.full(out['pred_logits'].shape[:2], self.num_classes, dtype=torch.int64)
            target_classes[idx] = target_classes_o
            loss_ce = F.cross_entropy(out['pred_logits'].transpose(1, 2), target_classes, self.empty_weight)
            src_boxes = out['pred_boxes'][idx]
            target_boxes = torch.cat([t['boxes'][i] for t, (_, i) in zip(targets, indices)], dim=0)
            loss_bbox = F.l1_loss(src_boxes, target_boxes, reduction='none').sum() / len(target_boxes)
            loss_giou = (1 - torch.diag(generalized_box_iou(box_cxcywh_to_xyxy(src_boxes), box_cxcywh_to_xyxy(target_boxes)))).mean()
            total = total + loss_ce + 5 * loss_bbox + 2 * loss_giou
        return total


model = reset(DETR(3, 6))
criterion = SetCriterion(3, HungarianMatcher())
param_dicts = [{"params": [p for n, p in model.named_parameters() if "backbone" not in n and p.requires_grad]},
               {"params": [p for n, p in model.named_parameters() if "backbone" in n and p.requires_grad], "lr": 1e-3}]
optimizer = torch.optim.AdamW(param_dicts, lr=2e-3, weight_decay=1e-4)
x, y = images(3, channels=3, size=16)
samples = nested_tensor_from_tensor_list([x[0], x[1][:, :12], x[2][:, :, :12]])
targets = [{'labels': torch.tensor([0, 1]), 'boxes': torch.tensor([[.3, .3, .2, .2], [.7, .6, .3, .3]])},
           {'labels': torch.tensor([2]), 'boxes': torch.tensor([[.5, .5, .4, .6]])},
           {'labels': torch.tensor([1, 0]), 'boxes': torch.tensor([[.2, .8, .2, .2], [.6, .3, .5, .3]])}]
history = []
for step in range(8):
    losses = criterion(model(samples), targets)
    optimizer.zero_grad()
    losses.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    history.append(losses.item())
