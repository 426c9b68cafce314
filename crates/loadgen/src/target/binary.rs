//! Memcached's binary messages, by the codec of `wire`.

use keyrack_wire::memcached::binary::{self, Command, NO_INITIAL, StoreMode};
use keyrack_wire::memcached::text::Direction;
use keyrack_wire::outcome::Kind;

use super::request::Request;

pub(super) fn encode(out: &mut Vec<u8>, request: &Request<'_>) {
    let Request { key, value, ttl_s, .. } = *request;
    let mut write = |command, cas, quiet| {
        let message = binary::Request::new(command, quiet);
        binary::Request { opaque: request.opaque, cas, ..message }.write(out);
    };
    let get = |key| Command::Get { key, with_key: false, exptime: None };
    let store = |mode| Command::Store { mode, key, flags: 0, exptime: ttl_s, value };
    let arithmetic = |direction| Command::Arithmetic {
        direction,
        key,
        delta: request.number,
        initial: 0,
        // A missing key is a failure, as it is for the text commands.
        exptime: NO_INITIAL,
    };
    match request.kind {
        Kind::Get | Kind::Gets => write(get(key), 0, false),
        Kind::Mget => {
            for key in request.keys.into_iter().flat_map(|keys| keys.iter()) {
                write(get(key), 0, true);
            }
            write(Command::Noop, 0, false);
        }
        Kind::Set => write(store(StoreMode::Set), 0, false),
        Kind::Cas => write(store(StoreMode::Set), request.number, false),
        Kind::Add => write(store(StoreMode::Add), 0, false),
        Kind::Replace => write(store(StoreMode::Replace), 0, false),
        Kind::Append => write(store(StoreMode::Append), 0, false),
        Kind::Prepend => write(store(StoreMode::Prepend), 0, false),
        Kind::Delete => write(Command::Delete { key }, 0, false),
        Kind::Incr => write(arithmetic(Direction::Up), 0, false),
        Kind::Decr => write(arithmetic(Direction::Down), 0, false),
        Kind::Touch => write(Command::Touch { key, exptime: ttl_s }, 0, false),
        Kind::Flush => write(Command::Flush { delay: 0 }, 0, false),
    }
}
