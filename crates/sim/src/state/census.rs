//! Who has how much of a device, as NVML tells it.

use super::Driver;

/// Memory of a device; `used` is what processes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    pub total: u64,
    pub reserved: u64,
    pub free: u64,
    pub used: u64,
}

/// A process that has memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    pub pid: u32,
    /// `None`: NVML does not tell.
    pub bytes: Option<u64>,
}

impl Driver {
    /// A device's memory as NVML counts it. The first neighbour grows at each question but the first.
    pub fn census_memory(&mut self, device: usize) -> Memory {
        if self.devices[device].asked > 0 {
            self.grow_neighbour(device);
        }
        let free = self.free_memory(device);
        let device = &mut self.devices[device];
        device.asked += 1;
        Memory {
            total: device.total + device.reserve,
            reserved: device.reserve,
            free,
            used: device.taken + device.used,
        }
    }

    fn grow_neighbour(&mut self, device: usize) {
        let more = self.growth.min(self.free_memory(device));
        let mut neighbours = self.neighbours.iter_mut();
        if let Some(first) = neighbours.find(|one| one.device == device) {
            first.bytes += more;
            self.devices[device].taken += more;
        }
    }

    /// Processes that compute on a device; `this` is the number of this one.
    pub fn computing(&self, device: usize, this: u32) -> Vec<User> {
        let mut users = self.users_among_neighbours(device, false);
        let has_context = self.contexts.values().any(|one| one.device == device);
        let bytes = self.devices[device].used;
        let is_listed = self.listed_as != Some(crate::settings::Settings::UNLISTED);
        if is_listed && (has_context || bytes > 0) {
            users.push(self.user(self.listed_as.unwrap_or(this), bytes));
        }
        users
    }

    /// Processes that draw on a device.
    pub fn drawing(&self, device: usize) -> Vec<User> {
        self.users_among_neighbours(device, true)
    }

    fn users_among_neighbours(&self, device: usize, drawing: bool) -> Vec<User> {
        let neighbours = self.neighbours.iter().filter(|one| {
            let counts = if drawing { one.draws } else { one.computes };
            one.device == device && counts
        });
        neighbours
            .map(|one| self.user(one.pid, one.bytes))
            .collect()
    }

    fn user(&self, pid: u32, bytes: u64) -> User {
        User {
            pid,
            bytes: self.tells_processes.then_some(bytes),
        }
    }

    /// The name of a neighbour.
    pub fn neighbour_name(&self, pid: u32) -> Option<&str> {
        let found = self.neighbours.iter().find(|one| one.pid == pid);
        found.map(|one| one.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Driver, Thread};
    use super::*;
    use crate::settings::Settings;

    const GIB: u64 = 1 << 30;

    fn driver(pairs: &[(&str, &str)]) -> Driver {
        let variable = |name: &str| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Driver::new(&Settings::read(variable, |complaint| panic!("{complaint}")))
    }

    #[test]
    fn what_neighbours_have_is_taken_for_the_driver_too() {
        let mut driver = driver(&[
            ("OOMHOOK_SIM", "2x16GiB,free=15GiB"),
            ("OOMHOOK_SIM_RESERVE", "1GiB"),
            (
                "OOMHOOK_SIM_NEIGHBOURS",
                "0:7:2GiB:a,G0:8:1GiB:b,CG1:9:1GiB:c",
            ),
        ]);
        assert_eq!(
            (driver.total(0), driver.free_memory(0)),
            (16 * GIB, 12 * GIB)
        );
        let memory = Memory {
            total: 17 * GIB,
            reserved: GIB,
            free: 12 * GIB,
            used: 4 * GIB,
        };
        assert_eq!(driver.census_memory(0), memory);
        let user = |pid, bytes| User {
            pid,
            bytes: Some(bytes),
        };
        assert_eq!(driver.computing(0, 1), [user(7, 2 * GIB)]);
        assert_eq!(driver.drawing(0), [user(8, GIB)]);
        assert_eq!(driver.computing(1, 1), driver.drawing(1));
        assert_eq!(driver.neighbour_name(9), Some("c"));
        assert_eq!(driver.neighbour_name(1), None);
    }

    #[test]
    fn this_process_has_all_that_it_takes() {
        let mut driver = driver(&[("OOMHOOK_SIM_CONTEXT", "500MiB")]);
        let thread = Thread(1);
        assert_eq!(driver.computing(0, 1), []);
        let context = driver.retain_primary(0).unwrap();
        driver.set_current(thread, context).unwrap();
        driver.alloc(thread, 1).unwrap();
        let bytes = Some((500 << 20) + 512);
        assert_eq!(driver.computing(0, 1), [User { pid: 1, bytes }]);
        assert_eq!(driver.computing(1, 1), []);
        driver.release_primary(thread, 0).unwrap();
        assert_eq!(driver.computing(0, 1), []);
    }

    #[test]
    fn the_first_neighbour_grows_from_the_second_question_on() {
        let mut driver = driver(&[
            ("OOMHOOK_SIM", "1x16GiB"),
            ("OOMHOOK_SIM_NEIGHBOURS", "0:7:1GiB:a,0:8:1GiB:b"),
            ("OOMHOOK_SIM_NEIGHBOUR_GROWS", "8GiB"),
        ]);
        for (used, first) in [(2, 1), (10, 9), (16, 15), (16, 15)] {
            assert_eq!(driver.census_memory(0).used, used * GIB);
            let bytes: Vec<_> = driver.computing(0, 1).iter().map(|one| one.bytes).collect();
            assert_eq!(bytes, [Some(first * GIB), Some(GIB)]);
        }
    }

    #[test]
    fn bytes_of_processes_may_be_unknown() {
        let settings = [
            ("OOMHOOK_SIM_NEIGHBOURS", "0:7:1GiB:a"),
            ("OOMHOOK_SIM_PROCESS_BYTES", "off"),
        ];
        let mut driver = driver(&settings);
        let bytes = None;
        assert_eq!(driver.computing(0, 1), [User { pid: 7, bytes }]);
        assert_eq!(driver.census_memory(0).used, GIB);
    }
}
