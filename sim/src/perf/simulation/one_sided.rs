//! Links that are one-sided (RDMA): what others read of a host's memory, and write into it, is its adapter's work.

use weft_core::node::Body;

use super::*;

impl Simulation {
    /// Whether a node is a host's, which leaves the rest to a controller.
    pub(super) fn is_endpoint(&self, node: u32) -> bool {
        self.system.nodes.roles.is_controlled() && self.diskless.is_host(node)
    }

    /// Whether an input is no work of its node's processor.
    pub(super) fn is_passive(&self, node: u32, input: &Input) -> bool {
        let (true, Input::Message(message)) = (self.system.links.one_sided, input) else {
            return false;
        };
        let moves = matches!(message.body, Some(Body::Fetch { .. } | Body::Place { .. }));
        moves && self.is_endpoint(node)
    }

    /// It takes no time but what is added up, which no adapter does.
    pub(super) fn is_done_by_its_adapter(&mut self, node: u32, input: Input) -> Result<(), String> {
        let mut work = Work::before(&input);
        let Handled { outputs, .. } = self.handle(node, self.queue.now(), input, &mut work);
        let added = Work { xor_bytes: work.xor_bytes, ..Work::default() };
        if added == Work::default() {
            return self.apply(node, outputs);
        }
        self.work += &added;
        let Place { processor, life, .. } = self.places[node as usize];
        let processor = &mut self.processors[processor as usize];
        let time = processor.time(self.system.nodes.path.instructions(&added));
        processor.busy += time;
        for output in outputs {
            self.queue.push(time, Event::Output { node, life, output: Box::new(output) });
        }
        Ok(())
    }
}
