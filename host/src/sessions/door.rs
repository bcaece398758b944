//! Authentication of a host at a listener.

use std::sync::Arc;

use rustls::ServerConfig;

use crate::doors::who::Who;

/// The door that one host comes in by.
#[derive(Clone, Default)]
pub(crate) struct Door {
    /// How it is served with TLS, if it can be.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// It must be.
    pub(crate) required: bool,
    /// The host that whoever comes without TLS is taken for: where a process is a host's own controller.
    pub(crate) own: Option<String>,
    /// Its protocol has no word for TLS, which may begin with the first byte.
    pub(crate) in_front: bool,
    /// It is an operator's, on the control socket.
    pub(crate) operator: bool,
}

impl Door {
    /// Who a host is that has not proved anything.
    pub(crate) fn stranger(&self) -> Who {
        match (&self.own, self.required) {
            _ if self.operator => Who::Operator,
            (_, true) => Who::Unproved,
            (Some(name), false) => Who::Own(name.clone()),
            (None, false) => Who::Stranger,
        }
    }

    /// Whether the first byte says if it is TLS.
    pub(crate) fn sniffs(&self) -> bool {
        self.in_front && self.tls.is_some()
    }

    /// TLS begins now, or will not any more.
    pub(crate) fn close(&mut self) -> Option<Arc<ServerConfig>> {
        self.tls.take()
    }

    /// What a machine whose protocol has a word for TLS says of it.
    pub(crate) fn spoken(&self) -> weft_front::Tls {
        match (&self.tls, self.required) {
            (None, false) => weft_front::Tls::Off,
            (Some(_), false) => weft_front::Tls::Offered,
            (_, true) => weft_front::Tls::Required,
        }
    }
}
