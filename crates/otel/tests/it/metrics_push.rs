//! Metrics with a real HTTP server, read with the messages of opentelemetry-proto.

use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use prost::Message as _;
use recount_otel::Exporter;
use recount_world::{Kind, World};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::scene::settings;

const PAGE: &str = "# TYPE recount_runs gauge\n# HELP recount_runs Runs.\nrecount_runs 3\n\
                    # TYPE recount_requests counter\n# HELP recount_requests Requests.\n\
                    recount_requests_total{status=\"2xx\"} 7\n# EOF\n";

#[tokio::test]
async fn figures_are_sent_again_and_again_whatever_the_endpoint_responds() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (to, mut bodies) = mpsc::unbounded_channel();
    let take = move |body: Bytes| {
        drop(to.send(body));
        async { StatusCode::SERVICE_UNAVAILABLE }
    };
    let world = World::real();
    let router = Router::new().route("/otlp/v1/metrics", post(take));
    world
        .tasks
        .spawn_until_shutdown(Kind::Service, async move { axum::serve(listener, router).await.unwrap() });
    let exporter = Exporter::new(settings(&format!("http://{address}/otlp"))).unwrap();
    let read = Box::new(|| Box::pin(async { PAGE.to_owned() }) as _);
    exporter.push_metrics(read, Duration::from_millis(5), &world).unwrap();
    for _ in 0..2 {
        let body = bodies.recv().await.unwrap();
        let request = ExportMetricsServiceRequest::decode(body).unwrap();
        let group = &request.resource_metrics[0];
        let resource = group.resource.as_ref().unwrap();
        assert!(resource.attributes.iter().any(|pair| pair.key == "service.name"), "{resource:?}");
        let metrics = &group.scope_metrics[0].metrics;
        assert_eq!(
            metrics.iter().map(|metric| &*metric.name).collect::<Vec<_>>(),
            ["recount_runs", "recount_requests"]
        );
        let Some(Data::Sum(sum)) = &metrics[1].data else { panic!("{metrics:?}") };
        assert_eq!((sum.aggregation_temporality, sum.is_monotonic), (2, true));
        assert_eq!(sum.data_points[0].value, Some(Value::AsDouble(7.0)));
        assert_eq!(sum.data_points[0].attributes[0].key, "status");
    }
    world.tasks.end(Kind::Service, Duration::from_secs(5)).await;
}
