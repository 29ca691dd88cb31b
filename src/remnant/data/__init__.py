"""Datasets: loading by name, checking and downloading their files, and wrapping arrays as a dataset."""

from remnant.data.dataset import (
    Dataset as Dataset,
    Source as Source,
    Spec as Spec,
    arrays as arrays,
    subset as subset,
)
from remnant.data.entry import Entry as Entry
from remnant.data.files import (
    FileCheck as FileCheck,
    data_dir as data_dir,
    data_dir_option as data_dir_option,
    repair_command as repair_command,
)
from remnant.data.own import KINDS as KINDS, OwnData as OwnData, parse_own_data as parse_own_data
from remnant.data.registry import (
    DATA as DATA,
    check as check,
    entry as entry,
    get as get,
    load as load,
    names as names,
    require_files as require_files,
)
