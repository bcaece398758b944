//! The queue.

use std::collections::VecDeque;

use super::{Policy, Positions};

/// Requests that wait, in the order in which they came.
#[derive(Clone, Debug)]
pub struct Queue<R> {
    policy: Policy,
    waiting: VecDeque<R>,
    /// How many at the front of `waiting` belong to the current batch ([`Policy::Bnn`]).
    batch: usize,
}

impl<R> Queue<R> {
    /// An empty queue.
    pub fn new(policy: Policy) -> Self {
        Queue { policy, waiting: VecDeque::new(), batch: 0 }
    }

    /// Adds a request.
    pub fn push(&mut self, request: R) {
        self.waiting.push_back(request);
    }

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The policy.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Takes out the request to serve next. Between equals, the one that came first.
    pub fn take(&mut self, disk: &impl Positions<R>) -> Option<R> {
        if self.waiting.len() <= 1 {
            self.batch = 0;
            return self.waiting.pop_front();
        }
        let chosen = match self.policy {
            Policy::Fcfs => 0,
            Policy::Sstf => self.cheapest(self.waiting.len(), |r| disk.seek(r)),
            Policy::Satf => self.cheapest(self.waiting.len(), |r| disk.access(r)),
            Policy::Bnn => {
                if self.batch == 0 {
                    self.batch = self.waiting.len();
                }
                let chosen = self.cheapest(self.batch, |r| disk.access(r));
                self.batch -= 1;
                chosen
            }
            Policy::CLook => {
                let here = disk.here();
                // What lies behind comes after all that lies ahead.
                self.cheapest(self.waiting.len(), |r| {
                    let address = disk.address(r);
                    (address < here, address)
                })
            }
        };
        self.waiting.remove(chosen)
    }

    fn cheapest<C: Ord>(&self, among: usize, cost: impl Fn(&R) -> C) -> usize {
        let costs = self.waiting.iter().take(among).map(cost);
        costs.enumerate().min_by(|a, b| a.1.cmp(&b.1)).map_or(0, |(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Addresses;
    use super::*;

    /// Serves everything, starting at `here`.
    fn order(policy: Policy, here: u64, requests: &[u64]) -> Vec<u64> {
        let mut queue = Queue::new(policy);
        requests.iter().for_each(|&r| queue.push(r));
        let mut disk = Addresses { here };
        std::iter::from_fn(|| {
            let next = queue.take(&disk)?;
            disk.here = next;
            Some(next)
        })
        .collect()
    }

    #[test]
    fn each_policy_has_its_order() {
        let requests = [50, 10, 70, 55, 90];
        assert_eq!(order(Policy::Fcfs, 60, &requests), requests);
        assert_eq!(order(Policy::Sstf, 60, &requests), [55, 50, 70, 90, 10]);
        assert_eq!(order(Policy::Satf, 60, &requests), [55, 50, 70, 90, 10]);
        assert_eq!(order(Policy::Bnn, 60, &requests), [55, 50, 70, 90, 10]);
        assert_eq!(order(Policy::CLook, 60, &requests), [70, 90, 10, 50, 55]);
    }

    #[test]
    fn every_policy_has_a_name() {
        for policy in Policy::ALL {
            assert_eq!(policy.name().parse(), Ok(policy));
        }
        let unknown = "look".parse::<Policy>().unwrap_err().to_string();
        assert!(Policy::ALL.iter().all(|p| unknown.contains(p.name())), "{unknown}");
    }

    #[test]
    fn equals_are_served_in_the_order_they_came() {
        let mut queue = Queue::new(Policy::Sstf);
        [40, 60, 40].iter().for_each(|&r| queue.push(r));
        assert_eq!(queue.take(&Addresses { here: 50 }), Some(40));
        assert_eq!(queue.take(&Addresses { here: 50 }), Some(60));
    }

    /// A far request, and a stream of near ones that never lets up: how many are served before
    /// the far one, of at most `limit`.
    fn served_before_the_far_one(policy: Policy, limit: usize) -> Option<usize> {
        const FAR: u64 = 1_000_000;
        let mut queue = Queue::new(policy);
        queue.push(1);
        queue.push(FAR);
        (0..limit as u64).find_map(|n| {
            queue.push(n % 7);
            let next = queue.take(&Addresses { here: 3 })?;
            (next == FAR).then_some(n as usize)
        })
    }

    #[test]
    fn a_batch_bounds_how_long_a_request_can_starve() {
        assert_eq!(served_before_the_far_one(Policy::Satf, 10_000), None);
        assert_eq!(served_before_the_far_one(Policy::Sstf, 10_000), None);
        // It is in the first batch, which is of three.
        assert_eq!(served_before_the_far_one(Policy::Bnn, 10_000), Some(2));
        assert_eq!(served_before_the_far_one(Policy::Fcfs, 10_000), Some(1));
    }
}
