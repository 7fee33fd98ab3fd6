# SPDX-License-Identifier: LGPL-2.1-or-later
"""Patterns that tests/check-style rejects in prose: see "Language" in CONTRIBUTING.md.

A rule has a name, a regular expression, the reason and the replacement. The expressions ignore case
unless a rule says otherwise. START matches at the start of a sentence. ALLOWED lists the
exceptions, each with its reason. An exception that matches nothing is a fault.
"""

import re
from typing import NamedTuple

# The start of a passage, of a description after "@name:" or "Returns:", or of a sentence
START = (r"(?:^(?:\W*\s)?|^[@#%|:\w.-]+: (?:\([^)]*\):? )*|^Returns: (?:\([^)]*\):? )*"
         r"|[.!?][)\"']? |(?<=[^:]): )")
PEOPLE = "".join(f"(?<!{noun} )" for noun in (
    "author", "authors", "contributors", "developer", "developers", "maintainer", "maintainers",
    "newcomer", "newcomers", "people", "person", "programmer", "programmers", "reader", "readers",
    "reviewer", "reviewers", "user", "users"))
CLAUSE_END = (
    r"(?=\s*(?:[.,;:)!?]|$)| (?:after|again|all|also|already|and|as|at|badly|because|before|but|by"
    r"|for|if|in|is|meanwhile|nor|now|on|once|or|since|so|soon|that|then|there|too|twice|until|when"
    r"|where|whether|while|with|without)\b)")

# Verbs whose subject is a bare "what": "what waits for it" is "the work that waits for it"
WHAT_VERBS = (
    "is|was|are|were|be|been|has|had|can|cannot|could|may|might|must|shall|should|will|would|does"
    "|did|do|became|becomes|began|begins|belongs|came|comes|copies|counts|costs|ended|ends|exceeds"
    "|exists|failed|fails|follows|followed|frees|gets|gives|goes|got|happens to|hangs|holds|keeps"
    "|knows|launches|lies|lives|makes|needs|overlaps|owns|ran|reads|refers|remains|repeats|runs"
    "|says|shows|stands|stays|stood|takes|tells|took|used|uses|waited|waits|wants|went|wraps"
    "|writes|wrote|never|still|only|otherwise|nobody|somebody|nothing")
GO_WHERE = "(?:first|back|away|home|straight|across|elsewhere|nowhere|like|along)"


class Rule(NamedTuple):
    name: str
    pattern: re.Pattern
    reason: str
    instead: str


def rule(name, pattern, reason, instead, flags=re.IGNORECASE):
    return Rule(name, re.compile(pattern, flags), reason, instead)


RULES = (
    rule("who", PEOPLE + r"\b(?:who|whom|whoever|whomever)(?:'s)?\b",
         "programs have no persons in them",
         "the noun: the thread that, the caller, the stream that"),
    rule("nobody", r"\b(?:nobody|somebody|anybody|everybody|no one(?! of)|someone|anyone|everyone)"
                   r"(?:'s|s')?\b(?!-)",
         "programs have no persons in them",
         "the noun: no thread, another stream, any caller; or the passive voice"),
    rule("what-first", START + r"what\b(?! to\b)(?![^.!?]*\?)",
         "a clause stands where a noun should",
         "a noun phrase: 'The filter mode', not 'What is read between texels'"),
    rule("what-subject", rf"\bwhat (?:{WHAT_VERBS})\b"
                         r"(?<!what went)(?! (?:wrong|missing|new|possible|supported|next)\b)"
                         r"(?<!guards what follows)"
                         r"(?![^.!?]*\?)",
         "'what' is the subject of a clause",
         "the noun: the work that waits, the memory in use, the previous value"),
    rule("what-object", r"\b(?:after|at|before|behind|beside|between|but|by|from|for|into|like|of"
                        r"|over|than|to|under|with|without) what\b"
                        r"(?! (?:extent|order|reason|happens|to)\b)(?![^.!?]*\?)",
         "a preposition rules a clause instead of a noun",
         "the noun: 'after the work of the other stream', not 'after what the other stream did'"),
    rule("indirect-getter", START + r"(?:gets|sets|returns|counts|has|the) "
                            r"(?:(?:at|by|for|from|in|of|to|with) )?"
                            r"(?:what|how|where|which|whom?)\b",
         "a getter names the value",
         "'Gets the X', 'Sets the X', 'Returns the number of X'"),
    rule("is-over", r"\b(?:is|are|was|were|be|been|being)"
                    r"(?: all| already| just| not| now| long)? over" + CLAUSE_END,
         "work completes, a timeout expires",
         "completes, has completed, is complete, expires"),
    rule("tells", r"\b(?:tell|tells|telling)\b(?! (?:\S+ ){0,4}?apart\b)",
         "functions return, drivers report, errors quote",
         "returns, reports, shows, quotes, notifies, specifies"),
    rule("told", r"\btold\b(?! (?:\S+ ){0,2}?apart\b)",
         "programs notify, register, pass",
         "notified, reported, registered with, given, distinguished"),
    rule("give-back", r"\b(?:give|gives|gave|given|giving|hand|hands|handed)"
                      r"(?: (?!and|or|but)[\w@.]+){0,3}? back\b",
         "memory is freed or returned",
         "free, return to the pool, release, restore"),
    rule("come-back", r"\b(?:come|comes|came|coming) (?:\w+ )?back\b",
         "memory is freed or reused, functions return, data is read back",
         "is returned to the pool, is reused, is read back, returns"),
    rule("goes", rf"\bgoes(?: {GO_WHERE})?" + CLAUSE_END + rf"|\bgoes {GO_WHERE}\b"
                 r"|\b(?:may|must|can|cannot|could|will|would|not|to|does|do|did|all|they|let it)"
                 rf" go(?: {GO_WHERE})?" + CLAUSE_END + rf"|\bwent(?: {GO_WHERE})?" + CLAUSE_END,
         "memory is freed, objects are finalized, references are dropped",
         "is freed, is finalized, is closed, is dropped, is copied directly"),
    rule("gone", r"\b(?:is|are|was|were|be|been|has|have|had|already|being)"
                 r" (?:already |all |long )?gone\b(?! (?:from|to)\b)",
         "memory is freed, objects are finalized, pools are closed",
         "was freed, was finalized, was closed, no longer exists"),
    rule("goes-on", r"\b(?:go|goes|going|went|gone) on\b(?! (?:strike|to the next)\b)",
         "work continues",
         "continues, proceeds, is adjacent to"),
    rule("let-go", r"\b(?:let|lets|letting) (?:[\w@]+ ){0,3}?go\b",
         "references are dropped, memory is freed, locks are released",
         "drops, releases, frees"),
    rule("of-which", r"(?<!none )(?<!all )(?<!each )(?<!some )(?<!any )(?<!both )(?<!one )(?<!two )"
                     r"(?<!most )(?<!half )(?<!many )(?<!either )(?<!neither )"
                     r"\bof (?:which|whom)\b(?! (?:\d|CODE|%|at most|at least|only|up to))",
         "the relative clause hides its noun",
         "whose; or two sentences"),
    rule("is-none", r"(?<!there )(?<!there still )(?<!\bone )\b(?:is|are|was|were|be) none(?! of)\b"
                    r"|\bthat (?:is|are) no(?! longer| more| larger| less)\b"
                    r"|\b(?:is|are) no \w+ at all\b"
                    r"|\bone that (?:is|was|has|does) (?:not|no|none)\b",
         "a riddle: 'a handle that is none'",
         "the adjective: an invalid handle, not a kernel", 0),
    rule("one-first", r"(?:^|[.!?] )(?:One|Ones|Those|That) (?:that|which|who|whose|made"
                      r"|without|with|of (?!the |these|them|CODE))",
         "the sentence begins with a pronoun for something not yet named",
         "the noun: 'A stream created with ...', not 'One that is made with ...'", 0),
    rule("of-first", r"(?:^|[.!?] )Of (?!course\b|these \d|the \d)",
         "the sentence begins with a genitive",
         "begin with the subject: 'If the memory ...'", 0),
    rule("where-first", r"(?:^|[.!?] |^@\w+: (?:\([^)]*\):? )*)(?:[Hh]ow (?!to\b)|Which "
                        r"|Where (?=(?:it|they|an?|the)\b))[^,.;:?]*(?:[.;]|$)",
         "a clause stands where a noun should",
         "a noun phrase: 'The source of the figure', not 'Where the figure comes from'", 0),
    rule("if-it-is", r", if (?:it|they) (?:is|was|are|were|has|have|does|do|did)(?=[.;:]|$)",
         "the reader must find the verb again",
         "state the condition: 'NULL if the program was loaded from a binary'"),
    rule("as-of", r"\bas of (?=[@#%]|_?gpu_|CODE|cu[A-Z]|cl[A-Z]|all |any |an? |those )",
         "'as of' is about dates",
         "the errors of X, like X"),
    rule("so-many", r"\bso many\b(?! \w+ that)|^so much\b"
                    r"|\bhas not(?=[.,;:]| (?:that|the|a|any|enough)\b)"
                    r"|\bany but\b|\bto the letter\b|\bis another one\b|\bto be had\b|\bhad by\b"
                    r"|\bgo first\b|\bleads? nowhere\b|\bis for \w+(?: \w+)? to know\b",
         "an idiom that costs a second reading",
         "the number, 'lacks', 'except', 'exactly', 'differs'"),
    rule("such-a-one", r"\bsuch (?:a|an) one\b|\bsuch ones?\b|\ba thing\b(?! that)",
         "a riddle",
         "the noun"),
    rule("as-of-one", r"\b(?:as|all) of one (?:moment|piece|time|go)\b|\bin one go\b"
                      r"|\bat the moment (?:at|in) which\b|\bfor the time of\b",
         "an idiom that is none of the field",
         "atomically, at once, when, during"),
    rule("badly", r"\b(?:if|over|also|or|ended|ends|end|ending|and|how|went|goes) badly\b"
                  r"|\bhow (?:all|it|they|that|this|everything) (?:went|goes|ended|ends)\b"
                  r"|\bbecame of\b|\bbecomes of\b",
         "operations fail; they have a result",
         "fails, with an error, the result"),
    rule("as-it-was", r"\b(?:is|are|was|were|stay|stays|stayed|leave|leaves|left|keeps?|remains?)"
                      r"(?: (?:it|them|all|everything|things))? as (?:it|they|all|he|everything) "
                      r"(?:is|are|was|were|had been|has been|ever)\b"
                      r"|\b(?:stay|stays|stayed|remains?|leaves? (?:it|them)|left) so\b"
                      r"|\bas if nothing (?:had been|were|was)\b",
         "a riddle for 'unchanged'",
         "is unchanged, leaves X unchanged, remains valid"),
    rule("hears", r"\b(?:hear|hears|heard|hearing)\b",
         "programs are notified",
         "is notified of, gets the error"),
    rule("stands", r"\b(?:stand|stands|stood|standing)\b(?! (?:for|in for)\b)(?!-)",
         "text is in a file, data is at an offset",
         "is in, is at, begins, lies; names the location"),
    rule("has-alone", r"\b(?:has|have|had|gets|get|keeps?) (?:it|them|\w+) "
                      r"(?:alone|to itself|for itself)\b",
         "the field's word is 'exclusive'",
         "exclusive access, owns"),
    rule("superlative", r"\bcosts? (?:the )?least\b|\bcosts? (?:the )?most\b|\bas long as wide\b",
         "the adjective exists",
         "cheapest, most expensive, the ratio"),
    rule("whatever", r"\b(?:whatever|whichever|wherever)\b",
         "a concession in place of 'any' or 'every'",
         "any, every, all, regardless of"),
    rule("archaic", r"\bbut for\b|\bbe (?:it|they)\b|\bfor want of\b|\blest\b"
                    r"|\bnor (?:who|what|is it)\b|\b(?:where|there|here)(?:of|in|upon|from|with)\b"
                    r"|\b[wt]hence\b|\bat any rate\b|\bbefore all\b|\ball (?:that )?there is\b"
                    r"|\ball that is there\b|\bwhat not\b",
         "not the English of documentation",
         "except for, whether, for lack of, all, everything"),
    rule("house-word", r"\b(?:drawer|drawers|ladder|newcomers?)\b",
         "a word that only this project would use",
         "the field's term: free list, slow path, first-time user"),
)

# (name of the rule, expression that matches the sentence, reason of the exception)
ALLOWED = (
)

# Files that quote rejected sentences
EXEMPT = ("tests/prose_rules.py", "tests/test-style")


class Hit(NamedTuple):
    rule: Rule
    offset: int
    text: str


used = set()


def is_allowed(name, sentence):
    """Returns whether an entry of ALLOWED matches, and records the entry."""
    matching = {(rule_name, pattern) for rule_name, pattern, _ in ALLOWED
                if rule_name == name and re.search(pattern, sentence)}
    used.update(matching)
    return bool(matching)


def unused():
    return sorted({entry[:2] for entry in ALLOWED} - used)


def find(passage):
    """Yields a Hit for each text that a rule rejects and no entry of ALLOWED allows."""
    for each in RULES:
        for match in each.pattern.finditer(passage.text):
            text = match.group().lstrip(" .!?:")
            hit = Hit(each, match.end() - len(text), text)
            if not is_allowed(each.name, passage.sentence(hit.offset)):
                yield hit
