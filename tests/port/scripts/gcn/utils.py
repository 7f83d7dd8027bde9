import numpy as np
import scipy.sparse as sp
import torch


def encode_onehot(labels):
    classes = set(labels)
    classes_dict = {c: np.identity(len(classes))[i, :] for i, c in enumerate(sorted(classes))}
    return np.array(list(map(classes_dict.get, labels)), dtype=np.int32)


def load_data():
    rng = np.random.RandomState(0)
    names = np.array(["a", "b", "c"])[np.arange(30) % 3]
    labels = encode_onehot(names)
    same = names[:, None] == names[None]
    adj = sp.coo_matrix((rng.rand(30, 30) < np.where(same, 0.4, 0.05)).astype(np.float32))
    adj = adj + adj.T.multiply(adj.T > adj) - adj.multiply(adj.T > adj)
    features = sp.csr_matrix(rng.rand(30, 8) * (rng.rand(30, 8) < 0.5) + np.eye(8)[np.arange(30) % 3], dtype=np.float32)
    features = normalize(features)
    adj = normalize(adj + sp.eye(adj.shape[0]))
    features = torch.FloatTensor(np.array(features.todense()))
    labels = torch.LongTensor(np.where(labels)[1])
    adj = sparse_mx_to_torch_sparse_tensor(adj)
    return adj, features, labels, torch.LongTensor(range(12)), torch.LongTensor(range(12, 30))


def normalize(mx):
    """Row-normalize sparse matrix"""
    rowsum = np.array(mx.sum(1))
    r_inv = np.power(rowsum, -1).flatten()
    r_inv[np.isinf(r_inv)] = 0.0
    return sp.diags(r_inv).dot(mx)


def accuracy(output, labels):
    preds = output.max(1)[1].type_as(labels)
    correct = preds.eq(labels).double()
    correct = correct.sum()
    return correct / len(labels)


def sparse_mx_to_torch_sparse_tensor(sparse_mx):
    """Convert a scipy sparse matrix to a torch sparse tensor."""
    sparse_mx = sparse_mx.tocoo().astype(np.float32)
    indices = torch.from_numpy(np.vstack((sparse_mx.row, sparse_mx.col)).astype(np.int64))
    values = torch.from_numpy(sparse_mx.data)
    shape = torch.Size(sparse_mx.shape)
    return torch.sparse_coo_tensor(indices, values, shape)
