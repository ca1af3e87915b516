"""What `experiments.serve` and `experiments.client` are made of.

A request comes in by `rest.py` (aiohttp) or `grpc_services.py`, waits its turn in
`request_queue.py`, is read by `json_tensors.py` or from protos, and is run by a version
that `versions.py` has found and `loaded_model.py` has loaded, in batches of
TensorFlow's own scheduler (`batching.py`). `server.py` holds these together.
`transports.py` is the other end, for the client.
"""
