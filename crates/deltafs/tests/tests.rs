//! The tests of name spaces, each kind in a module of its own.

#[cfg(test)]
mod at_rest;
#[cfg(test)]
mod attributes;
#[cfg(test)]
mod chain;
#[cfg(test)]
mod counted;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod full;
#[cfg(test)]
mod job;
#[cfg(test)]
mod kill;
#[cfg(test)]
mod large;
#[cfg(test)]
mod link;
#[cfg(test)]
mod model;
#[cfg(test)]
mod names;
#[cfg(test)]
mod outside;
#[cfg(test)]
mod publish;
#[cfg(test)]
mod quota;
#[cfg(test)]
mod rename;
#[cfg(test)]
mod slurm;
#[cfg(test)]
mod support;
#[cfg(test)]
mod threads;
#[cfg(test)]
mod tree;
