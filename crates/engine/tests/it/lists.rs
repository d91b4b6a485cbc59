//! Lists: newest first, with cursors that stay valid during changes.

use recount_engine::ListQuery;

use crate::scene::Scene;

fn query(limit: usize, after: Option<String>, status: Option<&str>) -> ListQuery {
    ListQuery { limit, after, status: status.map(str::to_owned) }
}

#[tokio::test(start_paused = true)]
async fn pages_cover_the_whole_list_while_it_grows() {
    for limit in [1, 2, 3, 7, 25, 26] {
        let scene = Scene::new().await;
        let mut runs = Vec::new();
        for _ in 0..25 {
            runs.push(scene.queue().await.to_string());
        }
        runs.reverse();
        let (mut seen, mut after, mut pages) = (Vec::new(), None, 0);
        loop {
            let page = scene.engine.catalogue().list_runs(&query(limit, after.clone(), None)).await.unwrap();
            assert!(page.items.len() <= limit);
            seen.extend(page.items.into_iter().map(|row| row.id.to_string()));
            // New items sort before the cursor, and changed ones keep their position.
            scene.queue().await;
            scene.cancel(runs[pages % 25].parse().unwrap()).await.ok();
            pages += 1;
            after = page.end.next;
            if !page.end.has_more {
                break;
            }
        }
        assert_eq!(seen, runs, "limit {limit}");
        let page = scene.engine.catalogue().list_runs(&query(limit, after.clone(), None)).await.unwrap();
        assert_eq!(
            (page.items.len(), page.end.next, page.end.has_more),
            (0, after, false),
            "the cursor stays"
        );
        scene.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_filtered_list_is_complete() {
    let scene = Scene::new().await;
    let mut cancelled = Vec::new();
    for n in 0..40 {
        let run = scene.queue().await;
        if n % 9 == 4 {
            scene.cancel(run).await.unwrap();
            cancelled.push(run.to_string());
        }
    }
    cancelled.reverse();
    for limit in [1, 2, 5, 50] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page =
                scene.engine.catalogue().list_runs(&query(limit, after, Some("cancelled"))).await.unwrap();
            seen.extend(page.items.into_iter().map(|row| row.id.to_string()));
            after = page.end.next;
            if !page.end.has_more {
                break;
            }
        }
        assert_eq!(seen, cancelled);
    }
    let none = scene.engine.catalogue().list_runs(&query(5, None, Some("failed"))).await.unwrap();
    assert!(none.items.is_empty() && !none.end.has_more && none.end.next.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_filtered_page_scans_a_limited_number_of_rows_and_continues_by_cursor() {
    let scene = Scene::new().await;
    let first = scene.queue().await;
    scene.cancel(first).await.unwrap();
    for _ in 0..recount_engine::limits::LIST_SCAN_MAX + 50 {
        scene.queue().await;
    }
    let page = scene.engine.catalogue().list_runs(&query(100, None, Some("cancelled"))).await.unwrap();
    assert!(page.items.is_empty() && page.end.has_more);
    let page =
        scene.engine.catalogue().list_runs(&query(100, page.end.next, Some("cancelled"))).await.unwrap();
    assert_eq!(page.items.len(), 1);
    assert!(!page.end.has_more);
}

#[tokio::test(start_paused = true)]
async fn tasks_and_their_runs_are_listed_separately() {
    let scene = Scene::new().await;
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let (row, _) = scene.engine.write().create_task(None, None).await.unwrap();
        tasks.push(row.id);
        let task = row.id;
        for _ in 0..2 {
            let run = scene.queue_for(Some(task)).await.unwrap();
            scene.cancel(run).await.unwrap();
        }
        let runs = scene.engine.catalogue().list_task_runs(task, &query(10, None, None)).await.unwrap();
        assert_eq!(runs.items.len(), 2);
        assert!(runs.items[0].id > runs.items[1].id, "newest first");
    }
    tasks.reverse();
    let listed = scene.engine.catalogue().list_tasks(&query(2, None, None)).await.unwrap();
    assert_eq!(listed.items.iter().map(|row| row.id).collect::<Vec<_>>(), tasks[..2]);
    assert!(listed.end.has_more);
    scene.check().await;
}
