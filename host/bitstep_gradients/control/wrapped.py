"""Base of what stands around a codec and is used in its place."""

from bitstep_gradients.codecs.base import Codec


class Wrapped(Codec):
    """Codec around another one: messages, bounds and state are those of the codec inside.

    Parameters
    ----------
    codec : Codec
        The codec inside.

    Raises
    ------
    TypeError
        If it is no codec.
    """

    def __init__(self, codec: Codec):
        if not isinstance(codec, Codec):
            raise TypeError("codec must be made by bitstep_gradients.make_codec, not "
                            f"{codec!r}")
        super().__init__(bucket_size=codec.bucket_size)
        self.codec = codec
        self.name, self.number, self.payload = codec.name, codec.number, codec.payload
        self.adapts, self.takes_side = codec.adapts, codec.takes_side

    @property
    def current(self) -> Codec:
        """The codec whose settings are the present ones."""
        return self.codec

    @property
    def parameter(self):
        return self.current.parameter

    @property
    def state_tag(self):
        return self.current.state_tag

    def encode(self, vector, key, side=None):
        return self.current.encode(vector, key, side)

    def decode(self, message, key, side=None):
        return self.current.decode(message, key, side)

    def _encode(self, values, key):
        return self.current._encode(values, key)

    def _decode(self, body, count, key, side):
        return self.current._decode(body, count, key, side)

    def variance_bound(self, vector):
        return self.current.variance_bound(vector)

    def expected_bits(self, vector):
        return self.current.expected_bits(vector)

    def expected_error(self, vector):
        return self.current.expected_error(vector)

    def bias(self, vector):
        return self.current.bias(vector)

    def statistics(self, vector):
        return self.codec.statistics(vector)

    def update(self, statistics, **options):
        self.codec.update(statistics, **options)

    def __repr__(self):
        return f"<{type(self).__name__} around {self.codec!r}{self._told()}>"
