//! What the engine asks of the confinement of commands.

use std::future::Future;
use std::pin::Pin;

use punie_core::host_traffic::HostTraffic;
use punie_core::ids::RequestId;

/// The confinement of this device's commands, and their traffic with other hosts.
pub trait ConfinementReport: Send + Sync + 'static {
    /// Describes the confinement; the description changes once it is proven.
    fn describe_confinement(&self) -> String;

    /// Completes once it is proven.
    fn when_proven(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Notes the traffic that the answer of a call tells.
    fn note_told_traffic(&self, request: &RequestId, told: &[HostTraffic]);

    /// Returns all traffic of those commands that had more after their call's answer, by request. It then counts as told.
    fn take_later_traffic(&self) -> Vec<(RequestId, Vec<HostTraffic>)>;
}
