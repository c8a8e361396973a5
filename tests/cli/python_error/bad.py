import os

batch_size = undefined + 1
