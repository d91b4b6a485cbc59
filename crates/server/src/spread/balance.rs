//! Decides which tenant moves to which server. Pure. See [`next_move`].

/// What a tenant counts without any event, so that idle tenants are spread, too.
pub(super) const IDLE: f64 = 1.0;

/// A move must make the busiest server less busy by this.
const GAIN_MIN: f64 = 0.5;

/// The difference between the servers that is worth interruptions, as a part of the load of the busiest one.
const DIFFERENCE_MIN: f64 = 0.1;

/// A server that can have tenants.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ServerLoad {
    pub(super) node: String,
    /// The load of its tenants that cannot move.
    pub(super) fixed: f64,
}

/// A tenant that can move.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TenantLoad {
    pub(super) name: String,
    pub(super) node: String,
    /// Events per second, and [`IDLE`].
    pub(super) load: f64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) tenant: String,
    pub(super) from: String,
    pub(super) to: String,
}

/// The move that relieves the busiest server most, if one is worth the interruption.
pub(super) fn next_move(servers: &[ServerLoad], tenants: &[TenantLoad]) -> Option<Move> {
    let load_of = |server: &ServerLoad| {
        let here = tenants.iter().filter(|tenant| tenant.node == server.node);
        server.fixed + here.map(|tenant| tenant.load).sum::<f64>()
    };
    let mut loads: Vec<(f64, &ServerLoad)> = servers.iter().map(|server| (load_of(server), server)).collect();
    loads.sort_by(|(one, left), (other, right)| one.total_cmp(other).then(left.node.cmp(&right.node)));
    let (least, to) = loads.first()?;
    let (most, from) = loads.last()?;
    let gain = |tenant: &TenantLoad| most - f64::max(most - tenant.load, least + tenant.load);
    let here = tenants.iter().filter(|tenant| tenant.node == from.node);
    let best = here.max_by(|one, other| gain(one).total_cmp(&gain(other)).then(other.name.cmp(&one.name)))?;
    let is_worth_it = most - least >= DIFFERENCE_MIN * most && gain(best) >= GAIN_MIN;
    is_worth_it.then(|| Move { tenant: best.name.clone(), from: from.node.clone(), to: to.node.clone() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn servers(fixed: &[f64]) -> Vec<ServerLoad> {
        let numbered = fixed.iter().enumerate();
        numbered.map(|(number, fixed)| ServerLoad { node: number.to_string(), fixed: *fixed }).collect()
    }

    fn tenants(loads: &[(usize, f64)]) -> Vec<TenantLoad> {
        let numbered = loads.iter().enumerate();
        let tenant = |(number, (node, load)): (usize, &(usize, f64))| TenantLoad {
            name: format!("t{number}"),
            node: node.to_string(),
            load: *load,
        };
        numbered.map(tenant).collect()
    }

    /// Moves until nothing is worth it; returns the number of moves.
    fn settle(servers: &[ServerLoad], tenants: &mut [TenantLoad]) -> usize {
        for moves in 0..10_000 {
            let Some(Move { tenant, from, to }) = next_move(servers, tenants) else { return moves };
            let moved = tenants.iter_mut().find(|there| there.name == tenant).unwrap();
            assert_eq!((&moved.node, from == to), (&from, false));
            moved.node = to;
        }
        panic!("it never settles");
    }

    #[test]
    fn tenants_move_to_a_server_with_less_load() {
        let two = servers(&[1.0, 0.0]);
        for (loads, expected) in [
            // The only tenant, and one of two; the default tenant counts.
            (&[(0, 1.0)][..], Some("t0")),
            (&[(0, 1.0), (0, 1.0)], Some("t0")),
            (&[(0, 1.0), (1, 1.0)], None),
            (&[(0, 1.0), (1, 1.0), (1, 1.0)], None),
            // The one that makes them most equal.
            (&[(0, 10.0), (0, 30.0), (0, 25.0)], Some("t1")),
            (&[(0, 100.0), (0, 50.0)], Some("t0")),
            (&[(0, 100.0), (0, 5.0)], Some("t0")),
            // Many small ones add up.
            (&[(0, 2.0); 50], Some("t0")),
            // A tenant that is all the load stays.
            (&[(1, 100.0)], None),
            // Small differences of busy servers are not worth an interruption.
            (&[(0, 50.0), (0, 2.0), (1, 49.0)], None),
        ] {
            let found = next_move(&two, &tenants(loads));
            assert_eq!(found.as_ref().map(|found| &*found.tenant), expected, "{loads:?}");
            assert!(found.is_none_or(|found| (&*found.from, &*found.to) == ("0", "1")), "{loads:?}");
        }
        assert_eq!(next_move(&servers(&[1.0]), &tenants(&[(0, 1.0)])), None, "there is no other server");
        assert_eq!(next_move(&[], &[]), None);
    }

    #[test]
    fn idle_tenants_are_spread_evenly() {
        let three = servers(&[1.0, 0.0, 0.0]);
        let mut all = tenants(&[(0, IDLE); 8]);
        settle(&three, &mut all);
        let at = |node: &str| all.iter().filter(|tenant| tenant.node == node).count();
        assert_eq!([at("0"), at("1"), at("2")], [2, 3, 3]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_settles_and_leaves_no_server_much_busier_than_another(
            fixed in proptest::collection::vec(0.0..20.0, 1..5),
            loads in proptest::collection::vec((0_usize..5, 1.0..50.0), 0..40),
        ) {
            let servers = servers(&fixed);
            let on_servers: Vec<_> = loads.iter().map(|(node, load)| (node % fixed.len(), *load)).collect();
            let mut all = tenants(&on_servers);
            let moves = settle(&servers, &mut all);
            prop_assert!(moves <= 20 * loads.len(), "{} moves", moves);
            let load = |server: &ServerLoad| server.fixed
                + all.iter().filter(|tenant| tenant.node == server.node).map(|tenant| tenant.load).sum::<f64>();
            let least = servers.iter().map(load).fold(f64::MAX, f64::min);
            let busiest = servers.iter().max_by(|one, other| load(one).total_cmp(&load(other))).unwrap();
            let here = all.iter().filter(|tenant| tenant.node == busiest.node);
            let smallest = here.map(|tenant| tenant.load).fold(f64::MAX, f64::min);
            let accepted = f64::max(smallest + GAIN_MIN, DIFFERENCE_MIN * load(busiest));
            prop_assert!(load(busiest) - least <= accepted + 1e-9, "a move is missing");
        }
    }
}
