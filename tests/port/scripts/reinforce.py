import argparse
from collections import deque
from itertools import count

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from portable import reset
from torch.distributions import Categorical


class Corridor:
    """Walk to the right end of a corridor; each step costs."""

    def reset(self):
        self.x, self.t = 0, 0
        return self.state(), {}

    def state(self):
        return np.array([self.x / 5.0, 1.0, self.t / 20.0, np.sin(self.x)], dtype=np.float32)

    def step(self, action):
        self.x, self.t = max(self.x + (1 if action == 1 else -1), -3), self.t + 1
        done = self.x >= 3
        return self.state(), 1.0 if done else -0.1, done, self.t >= 12, {}


parser = argparse.ArgumentParser(description="PyTorch REINFORCE example")
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--seed", type=int, default=543)
args = parser.parse_args()
env = Corridor()
torch.manual_seed(args.seed)
rng = np.random.RandomState(args.seed)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 32)
        self.affine2 = nn.Linear(32, 2)
        self.saved_log_probs = []
        self.rewards = []

    def forward(self, x):
        x = self.affine1(x)
        x = F.relu(x)
        action_scores = self.affine2(x)
        return F.softmax(action_scores, dim=1)


policy = reset(Policy())
optimizer = optim.Adam(policy.parameters(), lr=1e-2)
eps = np.finfo(np.float32).eps.item()


def select_action(state):
    state = torch.from_numpy(state).float().unsqueeze(0)
    probs = policy(state)
    m = Categorical(probs)
    action = torch.tensor([int(rng.rand() < probs[0, 1].item())])
    policy.saved_log_probs.append(m.log_prob(action))
    return action.item()


def finish_episode():
    R = 0
    policy_loss = []
    returns = deque()
    for r in policy.rewards[::-1]:
        R = r + args.gamma * R
        returns.appendleft(R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    for log_prob, R in zip(policy.saved_log_probs, returns):
        policy_loss.append(-log_prob * R)
    optimizer.zero_grad()
    policy_loss = torch.cat(policy_loss).sum()
    policy_loss.backward()
    optimizer.step()
    del policy.rewards[:]
    del policy.saved_log_probs[:]
    return policy_loss.item()


history = []
running_reward = 10
for i_episode in range(12):
    state, _ = env.reset()
    ep_reward = 0
    for t in count(1):
        action = select_action(state)
        state, reward, done, truncated, _ = env.step(action)
        policy.rewards.append(reward)
        ep_reward += reward
        if done or truncated:
            break
    running_reward = 0.05 * ep_reward + (1 - 0.05) * running_reward
    history += [finish_episode(), running_reward]
