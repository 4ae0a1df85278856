import resource

from ottla.server.net.descriptor_limit import open_files_within, raise_descriptor_limit


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_files_and_maps_leave_half_of_the_descriptors_to_connections() -> None:
    assert open_files_within(1024, None) == 1024
    assert open_files_within(1024, 1_000_000) == 1024
    assert open_files_within(1024, 1024) == 256
    assert open_files_within(1024, 20) == 16
