//! The handshake: what both sides say before anything else.
//!
//! ```text
//! offset  width
//!      0     16  cluster id
//!     16      8  life: a random number of this run of the process
//!     24      8  session: the one that the dialler goes on with, or 0; in the answer the one that is
//!     32      2  node number
//!     34      1  length of the name, L
//!     35      L  name
//! ```
//!
//! The protocol's version stands in the header of the frame around it.

use bytes::Bytes;
use weft_bytes::{BytesError, Read, Reader, Writer};
use weft_core::units::NodeId;

use crate::identity::{ClusterId, NodeName};

/// The kind of a frame with a [`Hello`].
pub(super) const HELLO: u8 = 1;

/// The kind of a frame that says why the other side is refused, in UTF-8.
pub(super) const REFUSED: u8 = 2;

/// The longest payload of either.
pub(super) const MAX_GREETING: usize = 1024;

/// Who somebody says to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub cluster: ClusterId,
    pub life: u64,
    pub session: u64,
    pub node: NodeId,
    pub name: NodeName,
}

/// What one that is not on the list is told.
pub(super) const NOT_LISTED: &str = "which is not a node of this cluster";

/// What one is told whose key is not the one that was admitted.
pub(super) const OTHER_KEY: &str = "its certificate is for a node that was removed or replaced";

/// Why one that said hello is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// Not a hello.
    #[error("its hello is malformed")]
    Malformed,
    /// Of another cluster.
    #[error("it is of cluster {theirs}, and this is cluster {ours}")]
    OtherCluster {
        /// The cluster that it names.
        theirs: ClusterId,
        /// Ours.
        ours: ClusterId,
    },
    /// Not who its certificate says.
    #[error("it claims to be {said}, and its certificate is for {shown}")]
    OtherName {
        /// The name that it says.
        said: NodeName,
        /// The name in its certificate.
        shown: NodeName,
    },
    /// Our own number.
    #[error("it claims to be node {0}, as we are; two nodes must not have the same number")]
    Ourselves(u16),
    /// A number that is not on our list.
    #[error("it claims to be node {number} ({name}), {}", NOT_LISTED)]
    NotListed {
        /// The number.
        number: u16,
        /// The name.
        name: NodeName,
    },
    /// The certificate is for another key than the one that the node was admitted with.
    #[error("it claims to be node {number} ({name}), whose key differs: {}", OTHER_KEY)]
    OtherKey {
        /// The number.
        number: u16,
        /// The name.
        name: NodeName,
    },
    /// Number and name do not belong together.
    #[error("it claims to be node {number} with the name {said}, and node {number} is {listed}")]
    WrongName {
        /// The number.
        number: u16,
        /// The name that it says.
        said: NodeName,
        /// The name on our list.
        listed: NodeName,
    },
    /// The node with the higher number dials.
    #[error("node {0} has dialled us, but we dial it: the node with the higher number dials")]
    WrongWay(u16),
    /// A Unix socket begins no session.
    #[error("a connection within a machine continues a session, and it names another")]
    NoSession,
    /// Another than the one that was dialled.
    #[error("node {found} answers at the address of node {dialled}; correct the addresses")]
    OtherNode {
        /// Who answers.
        found: u16,
        /// Who was dialled.
        dialled: u16,
    },
}

impl Hello {
    pub fn encode(&self) -> Bytes {
        let name = self.name.as_str();
        let mut w: Writer = Writer::with_room(64);
        w.u128(self.cluster.0);
        w.u64(self.life);
        w.u64(self.session);
        w.u16(self.node.0);
        w.u8(name.len() as u8);
        w.raw(name.as_bytes());
        w.finish().into()
    }

    pub fn decode(bytes: &[u8]) -> Result<Hello, HelloError> {
        Hello::parse(&mut Reader::new(bytes)).map_err(|_| HelloError::Malformed)
    }

    fn parse(r: &mut Reader) -> Read<Hello> {
        let cluster = ClusterId(r.u128()?);
        let (life, session, node, len) = (r.u64()?, r.u64()?, NodeId(r.u16()?), r.u8()?);
        let name = r.text(len.into())?.parse().map_err(|_| BytesError::Content("no name"))?;
        r.end()?;
        Ok(Hello { cluster, life, session, node, name })
    }

    /// Checks what somebody said. `shown` is the name in its certificate, `dialled` whom we
    /// called, `listed` the name that we know for its number.
    pub fn check(
        &self,
        us: &Hello,
        shown: Option<&NodeName>,
        dialled: Option<NodeId>,
        listed: Option<&NodeName>,
    ) -> Result<(), HelloError> {
        let number = self.node.0;
        if self.cluster != us.cluster {
            return Err(HelloError::OtherCluster { theirs: self.cluster, ours: us.cluster });
        }
        if let Some(shown) = shown.filter(|s| **s != self.name) {
            return Err(HelloError::OtherName { said: self.name.clone(), shown: shown.clone() });
        }
        if self.node == us.node {
            return Err(HelloError::Ourselves(number));
        }
        if let Some(dialled) = dialled.filter(|d| *d != self.node) {
            return Err(HelloError::OtherNode { found: number, dialled: dialled.0 });
        }
        let Some(listed) = listed else {
            return Err(HelloError::NotListed { number, name: self.name.clone() });
        };
        if *listed != self.name {
            let (said, listed) = (self.name.clone(), listed.clone());
            return Err(HelloError::WrongName { number, said, listed });
        }
        if dialled.is_none() && self.node < us.node {
            return Err(HelloError::WrongWay(number));
        }
        Ok(())
    }
}

/// A word of a router read, and written again: for fuzzing.
#[doc(hidden)]
pub fn word_again(kind: u8, bytes: &Bytes) -> Option<Bytes> {
    let (again, chunks) = weft_route::Word::decode(kind, bytes).ok()?.encode();
    (again == kind).then(|| chunks.concat().into())
}

/// A hello read, and written again: for fuzzing.
#[doc(hidden)]
pub fn hello_again(bytes: &[u8]) -> Option<Bytes> {
    Hello::decode(bytes).ok().map(|hello| hello.encode())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(node: u16, name: &str) -> Hello {
        let name = name.parse().unwrap();
        Hello { cluster: ClusterId(3), life: 9, session: 4, node: NodeId(node), name }
    }

    #[test]
    fn encoding_comes_back_and_parts_of_it_are_refused() {
        let bytes = hello(300, "box-1").encode();
        assert_eq!(bytes.len(), 35 + 5);
        assert_eq!(Hello::decode(&bytes).unwrap(), hello(300, "box-1"));
        for len in 0..bytes.len() {
            assert_eq!(Hello::decode(&bytes[..len]), Err(HelloError::Malformed));
        }
        assert_eq!(Hello::decode(&[&bytes[..], b"x"].concat()), Err(HelloError::Malformed));
    }

    #[test]
    fn everything_has_to_fit() {
        use HelloError as E;
        let us = hello(2, "us");
        let a: NodeName = "a".parse().unwrap();
        let check = |h: &Hello, shown, dialled: Option<u16>, listed| {
            h.check(&us, shown, dialled.map(NodeId), listed)
        };
        let three = hello(3, "a");
        assert_eq!(check(&three, Some(&a), None, Some(&a)), Ok(()));
        assert_eq!(check(&hello(1, "a"), Some(&a), Some(1), Some(&a)), Ok(()));
        let other = Hello { cluster: ClusterId(4), ..three.clone() };
        assert!(matches!(check(&other, None, None, Some(&a)), Err(E::OtherCluster { .. })));
        let liar = hello(3, "b");
        assert!(matches!(check(&liar, Some(&a), None, Some(&a)), Err(E::OtherName { .. })));
        assert!(matches!(check(&liar, None, None, Some(&a)), Err(E::WrongName { .. })));
        assert_eq!(check(&hello(2, "a"), None, None, Some(&a)), Err(E::Ourselves(2)));
        assert!(matches!(check(&three, None, None, None), Err(E::NotListed { .. })));
        assert!(matches!(check(&three, None, Some(1), Some(&a)), Err(E::OtherNode { .. })));
        assert_eq!(check(&hello(1, "a"), None, None, Some(&a)), Err(E::WrongWay(1)));
    }
}
