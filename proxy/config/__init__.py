"""The configuration: one documented tree, read from TOML and the environment, with errors that name the key."""

from proxy.config.read import ConfigError, from_upstream_url, load, loads
from proxy.config.tree import Config, Route, Upstream

__all__ = ["Config", "ConfigError", "Route", "Upstream", "from_upstream_url", "load", "loads"]
