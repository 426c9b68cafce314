//! A client of one loop: the protocol that its connection speaks, and the work it has caused
//! lately.

use crate::log;
use crate::work::Debt;
use crate::{Protocol, masstree, memcached, redis};
use keyrack_net::{Charge, Closer, Peer};
use std::net::SocketAddr;

/// A connection, and what it has cost lately.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) connection: Connection,
    pub(crate) debt: Debt,
    /// Where the client is; nothing for a unix socket.
    pub(crate) peer: Option<SocketAddr>,
}

impl Client {
    /// Where the client is, as in the log.
    pub(crate) fn peer_text(&self) -> String {
        log::peer_text(self.peer)
    }
}

/// A connection, by the protocol that it speaks.
#[derive(Debug)]
pub(crate) enum Connection {
    /// It has sent nothing yet.
    Mixed(Peer, Option<Closer>),
    Memcached(memcached::Connection, Charge),
    Redis(Box<redis::Connection>),
    Masstree(Box<masstree::Connection>, Charge),
}

impl Connection {
    /// Notes what closes it from another thread. Only clients of Redis can ask for that.
    pub(crate) fn closes_by(&mut self, by: Closer) {
        match self {
            Connection::Mixed(_, closer) => *closer = Some(by),
            Connection::Redis(connection) => connection.closes_by(by),
            Connection::Memcached(..) | Connection::Masstree(..) => {}
        }
    }

    pub(crate) fn protocol(&self) -> Protocol {
        match self {
            Connection::Mixed(..) => Protocol::Mixed,
            Connection::Memcached(..) => Protocol::Memcached,
            Connection::Redis(_) => Protocol::Resp,
            Connection::Masstree(..) => Protocol::Masstree,
        }
    }

    /// Whether the client has authenticated, or need not.
    pub(crate) fn is_authenticated(&self) -> bool {
        match self {
            Connection::Mixed(..) => false,
            Connection::Memcached(connection, _) => connection.is_authenticated(),
            Connection::Redis(connection) => connection.is_authenticated(),
            Connection::Masstree(..) => true,
        }
    }

    /// Appends the reply that ends it for want of memory.
    pub(crate) fn out_of_memory(&mut self, output: &mut Vec<u8>) {
        match self {
            Connection::Mixed(..) => {}
            Connection::Memcached(connection, _) => connection.out_of_memory(output),
            Connection::Redis(connection) => connection.out_of_memory(output),
            Connection::Masstree(connection, _) => connection.out_of_memory(output),
        }
    }
}
