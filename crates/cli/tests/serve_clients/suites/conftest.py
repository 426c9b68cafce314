"""What python-binary-memcached's tests expect around them, which its source package leaves out."""

import os

import pytest

IPV6_PORT = int(os.environ.get("KEYRACK_IPV6_PORT", "0"))


@pytest.fixture
def memcached_sasl():
    """The port, name and password of the server that asks for them."""
    return int(os.environ["KEYRACK_SASL_PORT"]), "user", "password"


@pytest.fixture
def memcached_ipv6():
    """The server on the loopback address of IPv6."""
    if IPV6_PORT == 0:
        pytest.skip("no IPv6 on this machine")
