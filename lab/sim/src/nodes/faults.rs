//! The faults of a play of nodes: storms, in which machines and their networks fail, and calms, in which some machines keep a
//! fault. Start at [`NodesPlay::storm`].

use super::node::SimNode;
use super::{Happening, NodeMutant, NodesPlay};

/// The connection of a machine to the database.
#[derive(Debug, Clone, Copy)]
pub(super) struct Network {
    pub(super) to_database: bool,
    pub(super) to_node: bool,
    pub(super) delay_ms: u64,
    /// How many of 1000 statements lose their request, response or connection.
    pub(super) losses: u64,
}

pub(super) const HEALTHY: Network = Network { to_database: true, to_node: true, delay_ms: 20, losses: 0 };

impl NodesPlay {
    fn set_network(&mut self, machine: usize, network: Network) {
        self.trace.log(format_args!("n{machine} {network:?}"));
        self.machines[machine].network = network;
        self.machines[machine].changes += 1;
    }

    /// Ends a fault of the network, or replaces it by a complete cut.
    pub(super) fn heal(&mut self, machine: usize) {
        let network = self.machines[machine].network;
        if self.is_stormy && network.to_database && self.dice.permille(300) {
            self.set_network(machine, Network { to_database: false, to_node: false, ..HEALTHY });
            let change = self.machines[machine].changes;
            let us = 5_000_000 + self.dice.below(15_000_000);
            return self.at(us, Happening::Heal { machine, change });
        }
        self.set_network(machine, Network { delay_ms: self.storm_delay_ms, ..HEALTHY });
    }

    pub(super) fn storm(&mut self) {
        self.trace.log("a storm begins");
        self.is_stormy = true;
        for machine in 0..self.machines.len() {
            self.machines[machine].is_kept_down = false;
            self.recover(machine);
            self.set_network(machine, Network { delay_ms: self.storm_delay_ms, ..HEALTHY });
        }
        self.at(0, Happening::Fault);
        self.run_for(5_000_000 + self.dice.below(40_000_000));
        self.is_stormy = false;
    }

    /// Ends the faults of a machine.
    fn recover(&mut self, machine: usize) {
        self.set_network(machine, HEALTHY);
        self.wake(machine);
        self.at(0, Happening::Start { machine });
    }

    pub(super) fn fault(&mut self) {
        if !self.is_stormy {
            return;
        }
        let next = self.dice.below(3_000_000);
        self.at(next, Happening::Fault);
        // The owner has most to lose.
        let owner = self.database.owner.filter(|_| self.dice.permille(500));
        let machine = owner.map_or_else(|| self.dice.index(self.machines.len()), |owner| owner.machine);
        let long = [300_000, 2_000_000, 5_000_000, 9_000_000, 14_000_000];
        let us = long[self.dice.index(long.len())] + self.dice.below(1_000_000);
        match self.dice.below(14) {
            0..=5 => {
                let network = match self.dice.below(6) {
                    0 => Network { to_database: false, to_node: false, ..HEALTHY },
                    1 => Network { to_database: false, ..HEALTHY },
                    2 => Network { to_node: false, ..HEALTHY },
                    3 => Network { delay_ms: 700, losses: 100, ..HEALTHY },
                    4 => Network { delay_ms: 5_000, ..HEALTHY },
                    _ => Network { losses: 400, ..HEALTHY },
                };
                self.counts.cuts += 1;
                self.set_network(machine, network);
                let change = self.machines[machine].changes;
                self.at(us, Happening::Heal { machine, change });
            }
            6..=8 => self.pause(machine, Some(us)),
            9 => {
                self.trace.log(format_args!("n{machine} is killed"));
                self.counts.kills += 1;
                self.end(machine);
            }
            10 => {
                let clocks = self.clocks(machine);
                let here = &mut self.machines[machine];
                if let Some(node) = here.node.as_mut().filter(|_| here.pause.is_none()) {
                    node.stop(clocks);
                    self.counts.stops += 1;
                    self.trace.log(format_args!("n{machine} is stopped"));
                }
                self.carry_out(machine);
            }
            11 | 12 => {
                let step = self.dice.below(20_000_000);
                let wall_us = &mut self.machines[machine].wall_us;
                *wall_us = (*wall_us + step).saturating_sub(10_000_000);
            }
            _ if self.mutant == Some(NodeMutant::AlterCounters) => self.database.counters.group_number += 5,
            _ => {
                self.trace.log("the database is down");
                self.is_database_up = false;
                self.at(us, Happening::DatabaseUp);
            }
        }
    }

    /// Ends all faults, except that some machines keep one. Returns the others, at least one.
    pub(super) fn calm(&mut self) -> Vec<usize> {
        self.trace.log("a calm begins");
        self.is_database_up = true;
        let all = self.machines.len();
        let first = self.dice.index(all);
        let is_healthy = |machine: &usize| *machine == first || self.dice.permille(300);
        let (healthy, faulty): (Vec<usize>, Vec<usize>) = (0..all).partition(is_healthy);
        for machine in &healthy {
            let here = &self.machines[*machine];
            if here.node.as_ref().is_some_and(SimNode::is_stopping) {
                self.end(*machine);
            }
            self.recover(*machine);
        }
        for machine in faulty {
            match self.dice.below(5) {
                0 => {
                    self.machines[machine].is_kept_down = true;
                    self.end(machine);
                }
                1 => {
                    self.wake(machine);
                    self.pause(machine, None);
                }
                2 => self.set_network(machine, Network { to_database: false, ..HEALTHY }),
                3 => self.set_network(machine, Network { to_node: false, ..HEALTHY }),
                _ => {
                    self.set_network(machine, Network { to_database: false, to_node: false, ..HEALTHY });
                }
            }
        }
        healthy
    }
}
