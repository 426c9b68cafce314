//! The synced put: on a store that has it, a put like any other; on one that has not, refused as
//! the caller's mistake, and nothing stored. What it promises beyond that, a crash has to show, and
//! each engine's own tests do.

use crate::operation::{Answer, Operation, perform};
use keyrack_store::{Error, Session, Store, WriteOptions};
use std::collections::BTreeMap;

/// How many are made. Each may wait for a disk.
const PUTS: usize = 24;
/// How many keys they go to.
const KEYS: usize = 7;

/// Puts, synced and not, over few keys, among them the empty one; each is read at once, and all of
/// them at the end.
///
/// # Errors
/// What was different from what the contract says, in words.
pub(crate) fn check_synced(store: &dyn Store) -> Result<String, String> {
    let failed = |error: Error| error.to_string();
    let mut session = store.session().map_err(failed)?;
    if !store.info().syncs_single_puts {
        return match session.put_with(b"key", b"value", WriteOptions::SYNC) {
            Err(Error::Usage { .. }) => {
                reads_back(session.as_mut(), b"key", None)?;
                Ok("refused, as the store has none".to_owned())
            }
            other => Err(format!("the store says that it has none, and answers {other:?}")),
        };
    }
    let mut expected = BTreeMap::new();
    for count in 0..PUTS {
        let key = vec![b'k'; count % KEYS];
        let value = vec![count as u8; count * 37 % 300];
        if count % 4 == 3 {
            session.put(&key, &value).map_err(failed)?;
        } else {
            session.put_with(&key, &value, WriteOptions::SYNC).map_err(failed)?;
        }
        reads_back(session.as_mut(), &key, Some(&value))?;
        expected.insert(key, value);
    }
    for (key, value) in &expected {
        reads_back(session.as_mut(), key, Some(value))?;
    }
    Ok(format!("{PUTS} puts, {} keys at the end", expected.len()))
}

fn reads_back(session: &mut dyn Session, key: &[u8], value: Option<&[u8]>) -> Result<(), String> {
    let get = Operation::Get(key.to_vec());
    let answer = perform(session, &get).map_err(|error| error.to_string())?;
    let wanted = Answer::Value(value.map(<[u8]>::to_vec));
    if answer == wanted { Ok(()) } else { Err(format!("{get}: wanted {wanted:?}, got {answer:?}")) }
}
