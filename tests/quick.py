"""Which cases of long tests run every time: the others are marked slow, and run with `make test-all`.

The cases that stay are spread evenly over all cases of a test.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

KEPT: Final = {
    "adjacency/test_drawn.py::test_noise_is_as_wide_as_the_loss_says": 3,
    "adjacency/test_worst.py::test_the_loss_of_the_worst_changes": 8,
    "cli/test_first_run.py::test_a_file_that_cannot_be_read": 7,
    "cli/test_init.py::test_versions_publish_who_is_there": 2,
    "cli/test_init.py::test_versions_that_are_only_marked_publish_who_is_there": 1,
    "cli/test_verbs.py::test_an_optimum_is_found_on_request": 0,
    "docs/test_commands.py::test_the_commands_of_a_page_run": 4,
    "docs/test_declarations.py::test_a_declaration_runs": 6,
    "engine/test_arrays.py::test_arrays_and_statements_leave_the_same_state": 12,
    "engine/test_arrays.py::test_arrays_equal_the_oracle": 12,
    "engine/test_cuts.py::test_a_sorted_source_may_say_how_far_it_has_come": 3,
    "engine/test_cuts.py::test_any_cut_of_a_log_gives_the_same": 2,
    "engine/test_cuts.py::test_no_unit_has_an_effect_on_another": 10,
    "engine/test_enforce.py::test_engine_equals_oracle": 10,
    "engine/test_enforce.py::test_engine_equals_oracle_where_constraints_renew": 6,
    "engine/test_enforce.py::test_engine_follows_keys_that_change_values_left_out_and_emptied_tables": 8,
    "engine/test_past.py::test_a_history_at_once_is_the_same_as_batches": 6,
    "engine/test_terms.py::test_any_cut_of_a_log_gives_the_same": 2,
    "engine/test_terms.py::test_what_a_unit_does_in_one_term_changes_nothing_outside_of_it": 3,
    "examples/test_examples.py::test_an_example_does_what_its_readme_says": 1,
    "golden/test_golden.py::test_a_run_is_as_recorded": 12,
    "mechanism/search/test_candidates.py::test_every_candidate_is_valid": 6,
    "mechanism/search/test_candidates.py::test_planning_ten_years_takes_few_steps": 2,
    "mechanism/strategies/test_dense.py::"
    "test_the_optimum_for_many_changes_is_near_its_limit_and_better_than_damped": 4,
    "mechanism/test_brute_force.py::test_some_life_does_nearly_as_much": 15,
    "publish/denoise/test_estimate.py::test_errors_are_smaller_and_intervals_cover": 6,
    "publish/test_explained.py::test_memory_is_the_most_that_is_ever_kept": 1,
    "receive/test_inbox.py::test_posts_while_the_loop_is_killed": 0,
    "receive/test_inbox.py::test_the_receiver_is_killed_too": 0,
    "recovery/test_crashes.py::test_dying_at_every_step_of_a_tick": 4,
    "recovery/test_live.py::test_dying_at_every_step_of_a_tick": 1,
    "recovery/test_live.py::test_dying_at_random_times": 1,
    "recovery/test_old_copy.py::test_dying_beside_the_witness": 1,
    "recovery/test_old_copy.py::test_files_that_are_no_readings": 3,
    "recovery/test_old_copy.py::test_readings_that_were_handed_on_show_it": 1,
    "recovery/test_secrets.py::test_bad_values": 2,
    "recovery/test_servers.py::test_a_server_killed_in_the_middle_of_large_transactions": 0,
    "recovery/test_signals.py::test_a_service_answers_whatever_it_inherits": 1,
    "recovery/test_signals.py::test_a_signal_at_any_moment_of_a_large_file": 1,
    "recovery/test_signals.py::test_a_signal_while_it_starts": 2,
    "recovery/test_unattended.py::test_a_clock_that_is_set_back": 1,
    "recovery/test_unattended.py::test_a_clock_that_is_wrong_for_four_seconds": 1,
    "run/test_ahead.py::test_noise_is_drawn_once_wherever_a_tick_dies": 2,
    "run/test_choose.py::test_a_kill_at_any_step_leads_to_one_reservation_and_one_draw_that_is_kept": 3,
    "run/test_cuts.py::test_readings_and_store_are_the_same_for_every_cut": 1,
    "run/test_derived.py::test_a_change_is_the_difference_of_what_is_known_by_then": 5,
    "run/test_forged.py::test_whatever_was_forged_is_refused": 6,
    "run/test_months.py::test_windows_of_months": 4,
    "run/test_optimum.py::test_for_many_changes_it_is_found_on_request": 1,
    "run/test_promise.py::test_a_run_errs_as_much_as_its_plan_promises": 3,
    "run/test_promise.py::test_readings_in_many_worlds_err_as_much_as_the_plan_promises": 5,
    "run/test_renewal.py::test_dying_while_a_term_begins_loses_and_repeats_nothing": 3,
    "run/test_stream.py::test_state_and_journal_move_together": 3,
    "simulate/test_simulation.py::test_every_cell_of_a_grid_has_the_bias_of_really_running_it": 1,
    "simulate/test_simulation.py::test_terms_of_a_grid_have_the_bias_of_really_running_them": 1,
    "source/files/test_fuzz.py::test_only_refusals_come_out": 2,
    "source/sqlite/test_sqlite.py::test_however_the_application_writes": 1,
    "source/test_contract.py::test_the_same_life_is_the_same_mutations": 8,
    "source/test_declared.py::test_from_init_to_readings": 3,
    "source/test_live_changes.py::test_a_row_takes_its_count_of_changes_along": 1,
    "source/test_live_changes.py::test_postgres_with_everything_a_log_can_say": 1,
    "source/test_live_real.py::test_seats_replayed": 1,
    "source/test_live_schema.py::test_a_change_of_what_is_used_stops_and_loses_nothing": 1,
    "source/test_names.py::test_sqlite": 1,
    "source/test_without_unit.py::test_a_row_without_a_unit_or_a_key_counts_nowhere": 2,
    "store/table/test_state_model.py::test_it_equals_dictionaries": 6,
    "store/test_encryption.py::test_another_key_is_refused_and_nothing_changes": 3,
    "store/test_erased.py::test_nothing_is_kept_of_a_release_that_has_ended": 2,
    "store/test_erased.py::test_the_twins_that_must_fail": 1,
    "store/test_upgrade.py::test_a_kill_at_any_moment_of_the_upgrade": 1,
}
"""By test: how many of the cases that are not slow by themselves run every time."""


def thin_out(items: Sequence[pytest.Item]) -> None:
    """Mark the cases that do not run every time as slow."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        name = item.nodeid.partition("[")[0].removeprefix("tests/")
        if name in KEPT and item.get_closest_marker("slow") is None:
            cases[name].append(item)
    for name, found in cases.items():
        kept = KEPT[name]
        stay = {number * len(found) // kept for number in range(kept)} if kept else set()
        for number, item in enumerate(found):
            if number not in stay:
                item.add_marker(pytest.mark.slow)
