"""The product's body: aiohttp, configuration, processes, logs, metrics. It imports `pipeline`, never the other way."""
