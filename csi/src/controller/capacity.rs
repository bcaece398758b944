//! How much more volumes can hold.

use std::collections::{BTreeMap, HashMap};

use tonic::Status;
use weft_core::layout::LayoutSpec;
use weft_host::status::{NodeState, NodeStatus};

use crate::cluster::Cluster;
use crate::parameters::Parameters;

/// The label by which columns are kept apart if no other is chosen.
const USUAL_LABEL: &str = "box";

/// The bytes of the largest volume of a class that fits now.
///
/// # Errors
/// If the class is invalid, or the cluster cannot be asked.
pub fn available(cluster: &Cluster, class: &HashMap<String, String>) -> Result<i64, Status> {
    let kind = Parameters::read(class, &HashMap::new())?;
    let label = kind.apart.as_deref().unwrap_or(USUAL_LABEL);
    let free = free_by_domain(&cluster.status()?.nodes, label);
    Ok(i64::try_from(fits(&free, &kind.layout.unwrap_or_default())).unwrap_or(i64::MAX))
}

/// Free bytes of each failure domain. A node without the label is one by itself.
fn free_by_domain(nodes: &[NodeStatus], label: &str) -> Vec<u64> {
    let mut domains: BTreeMap<String, u64> = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.state == NodeState::Up) {
        let labels = node.labels.as_ref();
        let value = labels.and_then(|labels| labels.get(label));
        let domain = value.map_or_else(|| format!("node {}", node.node), |v| format!("label {v}"));
        *domains.entry(domain).or_default() += node.free_bytes.unwrap_or(0);
    }
    domains.into_values().filter(|free| *free > 0).collect()
}

/// Bytes of data that fit, with each column of a stripe in another domain.
fn fits(free: &[u64], layout: &LayoutSpec) -> u64 {
    let Ok(layout) = layout.over(free.len()) else { return 0 };
    let (width, data) = (layout.width() as u64, layout.data_columns() as u64);
    // A domain has one column of a stripe: of `rows` bytes in each column it can hold no more than those.
    let holds = |rows: u64| {
        let all = free.iter().map(|free| u128::from((*free).min(rows))).sum::<u128>();
        all >= u128::from(width) * u128::from(rows)
    };
    let (mut least, mut most) = (0, free.iter().sum::<u64>() / width.max(1) + 1);
    while most - least > 1 {
        let middle = least + (most - least) / 2;
        match holds(middle) {
            true => least = middle,
            false => most = middle,
        }
    }
    least * data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_depends_on_the_layout_and_on_the_fullest_domain() {
        let fits = |free: &[u64], layout: &str| fits(free, &layout.parse().unwrap());
        assert_eq!(fits(&[100, 100, 100], "raid5"), 200);
        assert_eq!(fits(&[100, 100, 40], "raid5"), 80);
        assert_eq!(fits(&[100, 100], "raid5"), 0);
        assert_eq!(fits(&[100, 100, 100], "raid1"), 150);
        assert_eq!(fits(&[100, 10, 10], "raid1"), 20);
        assert_eq!(fits(&[100; 6], "rs:4+2"), 400);
        assert_eq!(fits(&[], "raid0"), 0);
    }

    #[test]
    fn nodes_of_one_box_count_together_and_those_that_are_away_not_at_all() {
        let node = |node, state, name: &str| NodeStatus {
            node,
            state,
            free_bytes: Some(10),
            labels: (!name.is_empty()).then(|| [("box".into(), name.into())].into()),
            ..NodeStatus::default()
        };
        let (up, down) = (NodeState::Up, NodeState::Down);
        let nodes = [
            node(0, up, "a"),
            node(1, up, "a"),
            node(2, up, "b"),
            node(3, down, "c"),
            node(4, up, ""),
        ];
        assert_eq!(free_by_domain(&nodes, "box"), [20, 10, 10]);
        assert_eq!(free_by_domain(&nodes, "rack"), [10, 10, 10, 10]);
    }
}
