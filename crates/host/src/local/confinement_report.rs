//! The confinement as the engine sees it.

use std::future::Future;
use std::pin::Pin;

use punie_core::host_traffic::HostTraffic;
use punie_core::ids::RequestId;
use punie_tool::ConfinementReport;

use super::confinement::Confinement;

impl ConfinementReport for Confinement {
    fn describe_confinement(&self) -> String {
        Self::level_text(self)
    }

    fn when_proven(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async { drop(self.level().await) })
    }

    fn note_told_traffic(&self, request: &RequestId, told: &[HostTraffic]) {
        self.network_proxy().note_told_traffic(request, told);
    }

    fn take_later_traffic(&self) -> Vec<(RequestId, Vec<HostTraffic>)> {
        self.network_proxy().take_later_traffic()
    }
}
