"""JAX takes one arena; the witness is its own limit."""

import json

import jax
import jax.numpy as jnp

x = jnp.ones((2048, 2048))
print("sum", float((x @ x).sum()))
stats = jax.local_devices()[0].memory_stats()
print("WITNESS " + json.dumps({"bytes_limit": stats["bytes_limit"], "pool_bytes": stats.get("pool_bytes")}))
