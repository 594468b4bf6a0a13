"""Tests of many cases in one."""

import functools
import inspect


def each(names, cases):
    """Run a test for every case, in one test; as ``pytest.mark.parametrize`` gives its arguments.

    A test of pytest costs milliseconds, which is more than many a case takes. A case that fails
    ends the test; the message has its number and its values. All cases share the fixtures of the
    test.

    Parameters
    ----------
    names : str
        Names of arguments, with commas between them.
    cases : iterable
        A tuple for each case, or a value where there is one name.
    """
    names, cases = [name.strip() for name in names.split(",")], list(cases)
    assert cases, "a test without cases tests nothing"
    cases = [case if len(names) > 1 else (case,) for case in cases]

    def decorate(test):
        signature = inspect.signature(test)
        assert set(names) <= set(signature.parameters), f"{test.__name__} does not take {names}"

        @functools.wraps(test)
        def of_all(**others):
            for number, case in enumerate(cases):
                values = dict(zip(names, case, strict=True))
                try:
                    test(**values, **others)
                except Exception as error:
                    shown = ", ".join(f"{name}={value!r}" for name, value in values.items())
                    raise AssertionError(f"case {number}, {shown}: {error}") from error

        # What pytest has to give.
        vars(of_all)["__signature__"] = signature.replace(parameters=[
            parameter for name, parameter in signature.parameters.items() if name not in names])
        return of_all

    return decorate
