//! Requests that do not go where they were drawn: shards, nodes of a cluster, tiers.
//!
//! ```text
//!   client c of a thread    one connection to each node: c, clients + c, 2 clients + c, ...
//!   workload c                  draws for all of them; `ahead` is what it drew and could not place
//!   a request               workload --key--> node --> its connection of this client
//! ```
//!
//! In a closed loop, a client that draws a request for a full connection waits for the connection,
//! like a program that requests one key after the other. Under a rate it goes on, and the request
//! waits in the queue of its connection, which has at most [`QUEUE_MAX`] requests.
//!
//! MOVED names the new owner of a slot. The map changes at once, the request goes to the new
//! owner, and the whole map is requested in the background. ASK sends one request elsewhere and
//! leaves the map as it is.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

use super::connect::{BackgroundEvent, discover_topology};
use super::connection::Connection;
use super::in_flight::{InFlight, flags};
use super::node::Node;
use super::workload::ConnectionWorkload;
use super::{OUTPUT_BYTES_MAX, Worker};
use crate::arrival::Stream as Draws;
use crate::content::split_assoc;
use crate::error::{Error, Result};
use crate::route::{Redirect, Sharding, Shards, Slots, Topology};
use crate::server::Server;
use crate::target::{Class, ErrorClass};

/// Requests under a rate that wait at one connection.
const QUEUE_MAX: usize = 1 << 16;
/// A request is redirected so often, and then it has failed.
const REDIRECTS_MAX: u8 = 16;
/// After so many requests for connections that are gone, a client rests for so long.
const GONE_MAX: u32 = 64;
const REST_NS: u64 = 1_000_000;
/// Between two questions for the map.
const REFRESH_PAUSE_NS: u64 = 100_000_000;
/// Nodes of a cluster at most.
const NODES_MAX: usize = 1024;

/// Who has which keys.
#[derive(Debug)]
enum Map {
    Shards(Shards),
    Slots(Slots),
    /// The first of two tiers, but for records that are loaded.
    Tiers,
}

/// The routes of one thread.
#[derive(Debug)]
pub(super) struct Router {
    map: Map,
    /// Connections of the thread to each node.
    pub(super) clients: usize,
    /// Of each client, what was drawn and has no place yet.
    pub(super) ahead: Vec<Option<InFlight>>,
    key: Vec<u8>,
    /// The map is being asked for.
    pub(super) is_refreshing: bool,
    /// When it may be asked for again.
    refresh_from: u64,
}

impl Router {
    fn new(map: Map, clients: usize) -> Router {
        let ahead = vec![None; clients];
        Router { map, clients, ahead, key: Vec::new(), is_refreshing: false, refresh_from: 0 }
    }
}

impl Worker<'_> {
    /// Finds out where connections are to lead.
    ///
    /// # Errors
    /// Servers that are no cluster.
    pub(super) fn discover_nodes(&mut self) -> Result<()> {
        let plan = self.plan;
        let settings = &plan.settings;
        let options = plan.connect.iter().cloned();
        let servers = plan.servers.iter().cloned().zip(options);
        self.nodes = servers.map(|(server, options)| Node { server, options }).collect();
        if let Some(shards) = &plan.shards {
            self.router = Some(Router::new(Map::Shards(shards.clone()), settings.connections));
        }
        if settings.sharding == Sharding::Tiers {
            self.router = Some(Router::new(Map::Tiers, settings.connections));
        }
        if settings.sharding == Sharding::Cluster {
            let seeds = std::mem::take(&mut self.nodes);
            let mut failure = None;
            // Any of them knows.
            let found = seeds.iter().find_map(|seed| {
                let topology = discover_topology(seed, settings);
                let name = || seed.server.name.clone();
                topology.map_err(|cause| failure = failure.take().or(Some((name(), cause)))).ok()
            });
            self.router = Some(Router::new(Map::Slots(Slots::new()), settings.connections));
            match (found, failure) {
                (Some(topology), _) if topology.is_empty() => {
                    let text = "the cluster has no slots: create it, or wait until it has formed";
                    let cause = std::io::Error::other(text);
                    return Err(Error::Server { server: seeds[0].server.name.clone(), cause });
                }
                (Some(topology), _) => {
                    self.seed = seeds.into_iter().next();
                    self.apply_topology(&topology);
                }
                (None, Some((server, cause))) => return Err(Error::Server { server, cause }),
                (None, None) => return Err(Error::usage("no server to ask for its cluster")),
            }
        }
        Ok(())
    }

    /// Believes a map.
    fn apply_topology(&mut self, topology: &Topology) {
        for (first, last, place) in topology {
            let Some(node) = self.node_named(place) else { continue };
            if let Some(Router { map: Map::Slots(slots), .. }) = &mut self.router {
                slots.assign(*first, *last, node);
            }
        }
    }

    /// The node at a place, which may be new: then it is connected to beside.
    fn node_named(&mut self, place: &str) -> Option<usize> {
        let known = self.nodes.iter().position(|node| node.server.name == place);
        if known.is_some() || self.nodes.len() >= NODES_MAX {
            return known;
        }
        let endpoint = place.parse().ok()?;
        let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let options = self.seed.as_ref()?.options.clone();
        let server = Server { name: place.to_owned(), host, endpoint, is_shared: false };
        self.nodes.push(Node { server, options });
        let node = self.nodes.len() - 1;
        // Before the first connections are made all of them are.
        if !self.connections.is_empty() && self.extend(node).is_err() {
            return None;
        }
        Some(node)
    }

    /// Connections to a node that came up.
    fn extend(&mut self, node: usize) -> Result<()> {
        let settings = &self.plan.settings;
        for client in 0..settings.connections {
            let at = self.connections.len();
            let workload = self.workload_of(client, at)?;
            self.workloads.push(workload);
            self.connections.push(Connection::absent(node, settings.protocol, settings.verify));
            self.reconnect(at);
        }
        Ok(())
    }

    /// The workload of the connection `at`, which is one of a client.
    pub(super) fn workload_of(&self, client: usize, at: usize) -> Result<ConnectionWorkload> {
        let plan = self.plan;
        let stream = Draws {
            seed: plan.settings.seed,
            agent: plan.settings.agent,
            thread: self.thread as u32,
            connection: at as u32,
        };
        let index = (self.thread * plan.settings.connections + client) as u32;
        ConnectionWorkload::new(plan, stream, index, plan.sources() as u32)
    }

    /// The connection whose workload draws for this one.
    #[inline]
    pub(super) fn home(&self, at: usize) -> usize {
        self.router.as_ref().map_or(at, |router| at % router.clients)
    }

    pub(super) fn node_of(&mut self, request: &InFlight) -> usize {
        let Some(router) = &mut self.router else { return 0 };
        if matches!(router.map, Map::Tiers) {
            return usize::from(request.flags & flags::LOAD != 0);
        }
        let key = if request.flags & flags::TRACE_KEY != 0 {
            self.trace_keys.key(request.key)
        } else {
            router.key.clear();
            self.plan.keys.append(request.key, &mut router.key);
            router.key.as_slice()
        };
        // With --assoc the server knows the first part of a key alone.
        let split = self.plan.settings.assoc.and_then(|bytes| split_assoc(key, bytes));
        let key = split.map_or(key, |(name, _)| name);
        match &router.map {
            Map::Shards(shards) => shards.server_of(key),
            Map::Slots(slots) => slots.node_of(key),
            Map::Tiers => 0,
        }
    }

    /// The next request of a client, if it is for this connection; those in front of it that are
    /// for others are put there.
    pub(super) fn next_routed(&mut self, at: usize) -> Option<InFlight> {
        let client = self.home(at);
        let mut gone = 0;
        loop {
            let held = self.router.as_mut().and_then(|router| router.ahead[client].take());
            let request = match held {
                Some(request) => request,
                None => self.next_of(client)?,
            };
            let clients = self.router.as_ref().map_or(1, |router| router.clients);
            let place = self.node_of(&request) * clients + client;
            if place == at {
                return Some(request);
            }
            let waits = self.phase.rate > 0.0 && !self.phase.is_load;
            let depth = self.depth();
            let other = &mut self.connections[place];
            let has_room = other.in_flight.len() < depth
                && other.queue.is_empty()
                && !(self.phase.is_load && other.output_bytes() > OUTPUT_BYTES_MAX);
            if other.is_alive() && has_room {
                self.write_request(place, request);
                self.touched.push(place);
            } else if other.is_alive() || other.is_awaited {
                if waits && other.queue.len() < QUEUE_MAX {
                    other.queue.push_back(request);
                    continue;
                }
                if let Some(router) = &mut self.router {
                    router.ahead[client] = Some(request);
                }
                return None;
            } else {
                self.count_unsent(&request);
                gone += 1;
                if gone >= GONE_MAX {
                    let workload = &mut self.workloads[client];
                    if !workload.is_timed {
                        workload.is_timed = true;
                        let rest = self.clock.ticks_of_ns(REST_NS);
                        self.timers.push(Reverse((self.clock.ticks() + rest, client)));
                    }
                    return None;
                }
            }
        }
    }

    /// A request whose server is gone is not sent.
    fn count_unsent(&mut self, request: &InFlight) {
        if request.flags & (flags::LOAD | flags::PURGE) == 0 {
            self.account.counts.unsent += 1;
            if self.is_open() {
                let waited_ns = self.clock.ns_between(request.intended, self.clock.ticks());
                self.account.tally_mut(Class::of(request.kind)).response.record(waited_ns);
            }
        }
        self.trace_keys.release(request);
    }

    /// Everything that was drawn and waits at no connection or in a queue, at the end of a phase.
    pub(super) fn count_unplaced(&mut self) {
        let ahead = self.router.iter_mut().flat_map(|router| &mut router.ahead);
        let mut left: Vec<InFlight> = ahead.filter_map(Option::take).collect();
        if self.router.is_some() {
            let queues = self.connections.iter_mut().map(|connection| &mut connection.queue);
            left.extend(queues.flat_map(std::mem::take::<VecDeque<InFlight>>));
        }
        for request in &left {
            if request.flags & (flags::FILL | flags::COPY) != 0 {
                // Nobody asked for it.
                self.trace_keys.release(request);
            } else {
                self.count_unsent(request);
            }
        }
    }

    /// Follows a redirection. `false`: there is none, or it leads nowhere.
    pub(super) fn redirect(&mut self, at: usize, request: &InFlight, class: ErrorClass) -> bool {
        let is_cluster = matches!(&self.router, Some(Router { map: Map::Slots(_), .. }));
        let is_ask = class == ErrorClass::Ask;
        if !is_cluster
            || !(is_ask || class == ErrorClass::Moved)
            || request.redirects >= REDIRECTS_MAX
        {
            return false;
        }
        let here = self.connections[at].server;
        let host = self.nodes[here].server.host.clone();
        let words = self.connections[at].parser.words();
        let Some(Redirect { slot, place }) = Redirect::parse(words, &host) else { return false };
        let Some(node) = self.node_named(&place) else { return false };
        let to = node * self.plan.settings.connections + self.home(at);
        if !self.connections[to].is_alive() && !self.connections[to].is_awaited {
            return false;
        }
        let mut again = InFlight { redirects: request.redirects + 1, ..*request };
        again.flags &= !flags::ASK;
        if request.redirects == 0 && !self.is_open() {
            // It began with the first send.
            again.intended = request.sent;
        }
        if is_ask {
            self.account.counts.asked += 1;
            again.flags |= flags::ASK;
        } else {
            self.account.counts.moved += 1;
            if let Some(Router { map: Map::Slots(slots), .. }) = &mut self.router {
                slots.assign(slot, slot, node);
            }
            self.refresh(node);
        }
        self.connections[to].queue.push_back(again);
        self.woken.push(to);
        true
    }

    /// Asks a node for the map, in a thread that may wait, unless that was done just now.
    pub(super) fn refresh(&mut self, node: usize) {
        let now = self.clock.ticks();
        let pause = self.clock.ticks_of_ns(REFRESH_PAUSE_NS);
        let Some(router) = &mut self.router else { return };
        if router.is_refreshing || now < router.refresh_from {
            return;
        }
        router.refresh_from = now + pause;
        let (node, sender) = (self.nodes[node].clone(), self.events.0.clone());
        let settings = Arc::new(self.plan.settings.clone());
        let ask = move || {
            // Nobody listens any more when the run is over.
            let _ = sender.send(BackgroundEvent::Topology(discover_topology(&node, &settings)));
        };
        let spawned = std::thread::Builder::new().name("slots".to_owned()).spawn(ask);
        router.is_refreshing = spawned.is_ok();
    }

    /// A cluster that lost a node may have another by now: any that is left knows.
    pub(super) fn ask_others(&mut self) {
        let is_cluster = matches!(&self.router, Some(Router { map: Map::Slots(_), .. }));
        let alive = self.connections.iter().find(|connection| connection.is_alive());
        if let (true, Some(node)) = (is_cluster, alive.map(|connection| connection.server)) {
            self.refresh(node);
        }
    }

    /// Takes a map that was asked for. One that could not be had changes nothing.
    pub(super) fn receive_topology(&mut self, topology: std::io::Result<Topology>) {
        if let Some(router) = &mut self.router {
            router.is_refreshing = false;
        }
        if let Ok(topology) = topology {
            self.apply_topology(&topology);
        }
    }
}
