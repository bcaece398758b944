//! A store of either kind: a worker is copied and compared whole, so it holds no trait object.

use std::ops::{Deref, DerefMut};

use super::{JournalStore, PlainStore, Store};

/// Either of them.
#[derive(Clone, Hash)]
pub enum AnyStore {
    /// One with a journal.
    Journal(Box<JournalStore>),
    /// One without.
    Plain(Box<PlainStore>),
}

impl Deref for AnyStore {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        match self {
            AnyStore::Journal(store) => &**store,
            AnyStore::Plain(store) => &**store,
        }
    }
}

impl DerefMut for AnyStore {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            AnyStore::Journal(store) => &mut **store,
            AnyStore::Plain(store) => &mut **store,
        }
    }
}
