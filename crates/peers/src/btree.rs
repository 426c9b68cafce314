//! `btree`: the model of the contract as an engine, a `BTreeMap` behind one lock. It is the floor
//! for engines that claim to scale, and it is right by construction.

use crate::check_in_memory;
use keyrack_store::{Engine, ModelStore, OpenOptions, Result, Store};

pub(crate) const ENGINE: Engine = Engine {
    name: "btree",
    about: "a BTreeMap behind one lock, in memory: simple, correct, serialised",
    persistent: false,
    stores: true,
    options: &[],
    open,
};

fn open(options: &OpenOptions) -> Result<Box<dyn Store>> {
    check_in_memory(ENGINE.name, options)?;
    Ok(Box::new(ModelStore::new()))
}
