//! What a router asks for: the words to send, and what has come of circuits that end here.

use bytes::Bytes;
use weft_core::units::NodeId;

use crate::word::{Circuit, Why, Word};

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Say this to a neighbour. What is said to one arrives in order, or its connection ends.
    Send(NodeId, Word),
    /// A process has opened a circuit to us, meaning this life of ours.
    Opened {
        /// The circuit.
        circuit: Circuit,
        /// Who.
        from: NodeId,
        /// Which life it meant.
        life: u64,
        /// The whole way, from the other end to us.
        path: Vec<NodeId>,
    },
    /// Bytes have come on a circuit that ends here.
    Came {
        /// Which.
        circuit: Circuit,
        /// Their place in its stream.
        at: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// There is room again on a circuit that ends here.
    Room(Circuit),
    /// A circuit that ended here is no more.
    Closed {
        /// Which.
        circuit: Circuit,
        /// Why.
        why: Why,
    },
}
