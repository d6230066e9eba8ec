"""Whether a segment that was copied is made of intact frames from its begin to its end.

A backup must not quietly pass on what has been damaged in the data folder. It is copied
all the same, since all its other frames can be read, and told.
"""

from pathlib import Path

from halfpast_core_store.frame import FLAG_END
from halfpast_core_store.real_disk import RealFile
from halfpast_core_store.segment import Segment, intact_frame


def is_sound(copy: Path, base: int, salt: int) -> bool:
    """Reads all of it: about a second per GiB."""
    segment = Segment(base, RealFile(copy, writable=False))
    try:
        position = base
        while position < segment.end:
            found = intact_frame(segment, position, salt)
            if found is None:
                return False
            header, _ = found
            if header.flags & FLAG_END:
                return True
            position += header.length
        return True
    finally:
        segment.file.close()
